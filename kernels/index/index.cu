// Indexing by tensors on simt and cuda. Row numbers: one thread a tuple. Writing:
//   naive    one thread an element of the table, each reading all row numbers from the last on
//   winners  each row's last position by atomicMax, whose result has no order; then one thread an
//            element of the winning positions
#include "warptape/kernels/index.h"

#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

// --- row numbers ---

struct IndexTuples {
  i64* rows;
  i64 n;
  int count, ndim;
  MailboxRecord* mailbox;
  u32 op_id;
  i64 shape[kMaxDims];
  IndexList list[kMaxDims];
  i64 size[kMaxDims];
  i64 stride[kMaxDims][kMaxDims];
  template <class F>
  void visit_pointers(F&& f) const {
    f(rows), f(mailbox);
    for (int k = 0; k < count; ++k) f(list[k].at);
  }
};

__global__ void __launch_bounds__(kThreads)
    index_rows_tuples(const __grid_constant__ IndexTuples a) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < a.n; b += stride) {
    // Coordinates from the number of the tuple: 64-bit divisions, dozens of instructions each, once
    // a tuple and not once an element of the row that it names.
    i64 place[kMaxDims], rest = b;
    for (int d = a.ndim; d-- > 0;) {
      place[d] = rest % a.shape[d];
      rest /= a.shape[d];
    }
    i64 row = 0;
    for (int k = 0; k < a.count; ++k) {
      i64 at = 0;
      for (int d = 0; d < a.ndim; ++d) at += place[d] * a.stride[k][d];
      // Neighbouring threads read neighbouring indices where the lists are dense: 256 bytes a warp.
      const i64 value = a.list[k][at], size = a.size[k];
      const bool good = value >= -size && value < size;
      if (!good)
        report_bad_index(a.mailbox, MailboxCode::index_out_of_range, a.op_id, b, value, size);
      // A bad index gives no row rather than a wrong one, and nothing is read or written for it.
      row = !good || row < 0 ? -1 : row * size + (value < 0 ? value + size : value);
    }
    a.rows[b] = row;
  }
}

void launch_rows(const IndexRowsArgs& a, const Launch& l) {
  IndexTuples k{};
  k.rows = a.rows.as<i64>();
  k.n = a.rows.numel();
  if (k.n == 0) return;
  k.count = a.count;
  k.ndim = a.rows.ndim();
  k.mailbox = a.mailbox;
  k.op_id = a.op_id;
  for (int d = 0; d < k.ndim; ++d) k.shape[d] = a.rows.size(d);
  for (int i = 0; i < a.count; ++i) {
    k.list[i] = {a.indices[i].data, a.indices[i].dtype() == DType::i64};
    k.size[i] = a.size[i];
    for (int d = 0; d < k.ndim; ++d) k.stride[i][d] = a.indices[i].stride(d);
  }
  // An argument of 800 bytes: __grid_constant__ lets the kernel index it where it lies, in constant
  // memory.
  launch<index_rows_tuples>(grid_of(l, ceil_div(k.n, kThreads), kThreads), k);
}

// --- writing ---

template <class U>
struct IndexScatter {
  U* table;
  const U* values;
  const i64* rows;
  u32* winner;  // 1 + the last position of each row, 0: none
  i64 n, limit, width, row_stride, step;
  template <class F>
  void visit_pointers(F&& f) const {
    f(table), f(values), f(rows), f(winner);
  }
};

template <class U>
__global__ void __launch_bounds__(kThreads) index_put_naive(IndexScatter<U> a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, all = a.limit * a.width;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < all; e += stride) {
    const i64 row = e / a.width, d = e % a.width;
    // The last position wins, as if they were written in order: each thread looks for it by itself,
    // and reads up to n row numbers for one element. No two threads write one place.
    i64 i = a.n - 1;
    while (i >= 0 && a.rows[i] != row) --i;
    if (i >= 0) a.table[row * a.row_stride + d * a.step] = a.values[i * a.width + d];
  }
}

__global__ void __launch_bounds__(kThreads) index_clear_winners(u32* winner, i64 limit) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 v = i64(blockIdx.x) * blockDim.x + threadIdx.x; v < limit; v += stride) winner[v] = 0;
}

__global__ void __launch_bounds__(kThreads)
    index_find_winners(const i64* rows, u32* winner, i64 n, i64 limit) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    // Positions that name one row meet here in any order; the maximum is the same whichever comes
    // first. Writing the values themselves in this race would let the last writer win, another one
    // at every run.
    if (rows[i] >= 0 && rows[i] < limit) atomicMax(&winner[rows[i]], u32(i + 1));
}

template <class U>
__global__ void __launch_bounds__(kThreads) index_put_winners(IndexScatter<U> a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, all = a.n * a.width;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < all; e += stride) {
    // Neighbouring threads take neighbouring elements of a row: reads and writes are in a row (step
    // 1), and the row number and its winner are one address for most of a warp.
    const i64 i = e / a.width, d = e % a.width, row = a.rows[i];
    if (row >= 0 && row < a.limit && a.winner[row] == u32(i + 1))
      a.table[row * a.row_stride + d * a.step] = a.values[e];
  }
}

template <class U>
IndexScatter<U> scatter_args(const IndexPutArgs& a, const Launch& l) {
  return {a.table.as<U>(),        a.values.as<const U>(),
          a.rows.as<const i64>(), static_cast<u32*>(l.workspace),
          a.rows.numel(),         a.table.size(0),
          a.table.size(1),        a.table.stride(0),
          a.table.stride(1)};
}

inline bool nothing_to_put(const IndexPutArgs& a) {
  return a.rows.numel() == 0 || a.table.numel() == 0;
}
void launch_naive(const IndexPutArgs& a, const Launch& l) {
  if (nothing_to_put(a)) return;
  with_unit(item_size(a.table.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<index_put_naive<U>>(grid_of(l, ceil_div(a.table.numel(), kThreads), kThreads),
                               scatter_args<U>(a, l));
  });
}
const char* why_not_winners(const IndexPutArgs& a) {
  return a.rows.numel() < (1ll << 32) - 1 ? nullptr : "positions are counted in 32 bits";
}
i64 winners_workspace(const IndexPutArgs& a) { return 4 * a.table.size(0); }
void launch_winners(const IndexPutArgs& a, const Launch& l) {
  if (nothing_to_put(a)) return;
  const i64 n = a.rows.numel(), limit = a.table.size(0);
  u32* winner = static_cast<u32*>(l.workspace);
  launch<index_clear_winners>(grid_of(l, ceil_div(limit, kThreads), kThreads), winner, limit);
  // Three launches on one stream: each sees what the one before wrote, with no barrier but the
  // launch.
  launch<index_find_winners>(grid_of(l, ceil_div(n, kThreads), kThreads), a.rows.as<const i64>(),
                             winner, n, limit);
  with_unit(item_size(a.table.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<index_put_winners<U>>(grid_of(l, ceil_div(a.values.numel(), kThreads), kThreads),
                                 scatter_args<U>(a, l));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, index_rows, IndexRowsArgs, {.name = "tuples", .launch = launch_rows});
WT_VARIANTS(WT_DEVICE_NS, index_put, IndexPutArgs,
            {.name = "winners",
             .rank = 10,
             .why_not = why_not_winners,
             .workspace = winners_workspace,
             .launch = launch_winners},
            {.name = "naive", .launch = launch_naive});

}  // namespace wt
