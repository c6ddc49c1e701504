// Batches of rows, points and tokens on simt and cuda.
//   elements  a thread a unit of 1 to 16 bytes of a row, or a token
// Every thread works out its row by itself: some 300 instructions (ten rounds of Philox, some walks
// of the permutation), beside which the unit is nothing; but a batch has few units for a GPU, and a
// list of rows in memory would be another launch.
#include "warptape/kernels/sample_batch.h"

#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;

// --- rows and points ---

struct RowGather {
  RowTable table[kRowTables];
  i64 end[kRowTables];  // units of this table and those before it
  BatchOrder order;
  i64 picks, points, total;
  int tables;
  template <class F>
  void visit_pointers(F&& f) const {
    for (const RowTable& t : table) f(t.out), f(t.rows);
    f(order.list), f(order.cursor);
  }
};

template <class U>
__device__ __forceinline__ void copy_unit(const RowGather& a, const RowTable& table, i64 e) {
  const i64 length = table.row_bytes / i64(sizeof(U));
  const i64 q = e / length, unit = e - q * length;
  const i64 picks = table.by_points ? a.picks : 1;
  const i64 i = q / picks;
  i64 row = a.order.row(i);
  if (table.by_points)
    row = row * a.points +
          subset_point(a.order.seed, a.order.epoch_now(), row, q - i * picks, a.points);
  // Neighbouring lanes have neighbouring units of a row, both ways, wherever the row lies.
  const U* const from = static_cast<const U*>(table.rows) + row * length + unit;
  U* const to = static_cast<U*>(table.out) + e;
  if constexpr (sizeof(U) == 16)
    vstore(to, vload<U>(from));
  else
    *to = *from;
}

template <class U>
__global__ void __launch_bounds__(kThreads) row_batch_elements(RowGather a) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < a.total; e += stride) {
    i64 begin = 0;
    // The tables one after the other: a warp is in one of them, mostly. Unrolled, so that the list
    // is read with constant places.
#pragma unroll
    for (int t = 0; t < kRowTables; ++t) {
      if (t < a.tables && e >= begin && e < a.end[t]) copy_unit<U>(a, a.table[t], e - begin);
      begin = a.end[t];
    }
  }
}

template <class U>
void launch_rows(const RowBatchArgs& b, const Launch& l) {
  RowGather a{};
  a.order = b.order, a.picks = b.picks, a.points = b.points, a.tables = b.tables;
  for (int t = 0; t < kRowTables; ++t) {
    a.table[t] = b.table[t];
    if (t < b.tables) a.total += b.out_rows(t) * b.table[t].row_bytes / i64(sizeof(U));
    a.end[t] = a.total;
  }
  if (a.total == 0) return;
  launch<row_batch_elements<U>>(grid_of(l, ceil_div(a.total, kThreads), kThreads), a);
}

void launch_row_batch(const RowBatchArgs& a, const Launch& l) {
  // The largest unit that divides every row and every address.
  uintptr_t bits = 16;
  for (int t = 0; t < a.tables; ++t)
    bits |= reinterpret_cast<uintptr_t>(a.table[t].out) |
            reinterpret_cast<uintptr_t>(a.table[t].rows) | uintptr_t(a.table[t].row_bytes);
  switch (bits & -bits) {
    case 1:
      return launch_rows<u8>(a, l);
    case 2:
      return launch_rows<u16>(a, l);
    case 4:
      return launch_rows<u32>(a, l);
    case 8:
      return launch_rows<u64>(a, l);
    default:
      return launch_rows<Pack16<u32>>(a, l);
  }
}

// --- tokens ---

struct TokenGather {
  i64 *x, *y;
  const void* tokens;
  DType dtype;
  BatchOrder order;
  i64 context, stride, total;
  bool every_position;
  template <class F>
  void visit_pointers(F&& f) const {
    f(x), f(y), f(tokens), f(order.list), f(order.cursor);
  }
};

__global__ void __launch_bounds__(kThreads) token_batch_elements(TokenGather a) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < a.total; e += stride) {
    const i64 i = e / a.context, k = e - i * a.context;
    const i64 from = a.order.row(i) * a.stride + k;
    a.x[e] = detail::token_at(a.tokens, a.dtype, from);
    // The neighbour's token again, out of the same sector.
    if (a.every_position)
      a.y[e] = detail::token_at(a.tokens, a.dtype, from + 1);
    else if (k == a.context - 1)
      a.y[i] = detail::token_at(a.tokens, a.dtype, from + 1);
  }
}

void launch_token_batch(const TokenBatchArgs& b, const Launch& l) {
  const TokenGather a{b.x,       b.y,      b.tokens.data,       b.tokens.dtype(), b.order,
                      b.context, b.stride, b.count * b.context, b.every_position};
  if (a.total == 0) return;
  launch<token_batch_elements>(grid_of(l, ceil_div(a.total, kThreads), kThreads), a);
}

// --- the cursor ---

__global__ void __launch_bounds__(1) batch_cursor_kernel(i64* cursor, i64 count, i64 limit) {
  detail::advance_cursor(cursor, count, limit);
}
void launch_batch_cursor(const BatchCursorArgs& a, const Launch& l) {
  launch<batch_cursor_kernel>(grid_of(l, 1, 1), a.cursor, a.count, a.limit);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, row_batch, RowBatchArgs,
            {.name = "elements", .launch = launch_row_batch});
WT_VARIANTS(WT_DEVICE_NS, token_batch, TokenBatchArgs,
            {.name = "elements", .why_not = detail::bad_token_batch, .launch = launch_token_batch});
WT_VARIANTS(WT_DEVICE_NS, batch_cursor, BatchCursorArgs,
            {.name = "one_thread", .launch = launch_batch_cursor});

}  // namespace wt
