// Embedding on simt and cuda. Look-up:
//   naive       one thread a row
//   coalesced   one thread an element: neighbouring threads read neighbouring elements
//   vectorized  one thread 16 bytes
// Gradient of the table, without floating-point atomics, so that the order of additions is fixed:
//   naive       one thread an element of the table, each reading all indices
//   sorted      a stable radix sort of the positions by index, then a warp adds the positions of a
//               table row, 16 bytes a lane; four warps those of a frequent one
#include "warptape/kernels/embedding.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/index/position_sort.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- look-up ---

// U moves the bytes of one element, or of 16 / item of them; `length` and the strides count in U.
template <class U>
struct EmbeddingGather {
  enum { Out, Indices };  // the operands of `rows`
  Rows<2> rows;
  U* out;
  const U* weight;
  IndexList indices;
  i64 limit, row_stride, step, length;
  i64 zero_index;
  MailboxRecord* mailbox;
  u32 op_id;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(weight), f(indices.at), f(mailbox);
  }
  // The row of the table for a position, null where zeros are wanted.
  __device__ __forceinline__ const U* source(i64 position, bool report) const {
    const i64 index = indices[rows.start(Indices, position)];
    if (index < 0 || index >= limit) {
      if (report)
        report_bad_index(mailbox, MailboxCode::token_out_of_range, op_id, position, index, limit);
      return weight;
    }
    return index == zero_index ? nullptr : weight + index * row_stride;
  }
};

template <class U>
__global__ void __launch_bounds__(64) embedding_naive(EmbeddingGather<U> a) {
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.rows.count) return;
  // A thread copies a whole row: lanes read and write a row apart, 32 sectors for 32 elements both
  // ways.
  const U* from = a.source(i, true);
  for (i64 d = 0; d < a.length; ++d) a.out[i * a.length + d] = from ? from[d * a.step] : U{};
}

template <class U>
__global__ void __launch_bounds__(128) embedding_elements(EmbeddingGather<U> a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.rows.count * a.length;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    // 32-bit division is some ten instructions, 64-bit one dozens: more than the copy itself.
    const i64 i = n <= 0xffffffffll ? i64(u32(e) / u32(a.length)) : e / a.length;
    const i64 d = e - i * a.length;
    // Neighbouring lanes have neighbouring d of one row, mostly: the read of a row of the table is
    // in a row, wherever that row lies. The index itself is one address, sent to all lanes of the
    // row.
    const U* from = a.source(i, d == 0);
    if constexpr (sizeof(U) == 16)
      // 512 bytes a warp and instruction: a table row of 1 KiB is two of them.
      vstore(a.out + e, from ? vload<U>(from + d) : U{});
    else
      a.out[e] = from ? from[d * a.step] : U{};
  }
}

template <class U>
EmbeddingGather<U> gather_args(const EmbeddingForwardArgs& a) {
  const i64 per_unit = i64(sizeof(U)) / item_size(a.weight.dtype());
  return {rows_along<2>(a.out.ndim() - 1, {{a.out}, {a.indices, false}}),
          a.out.as<U>(),
          a.weight.as<const U>(),
          {a.indices.data, a.indices.dtype() == DType::i64},
          a.weight.size(0),
          a.weight.stride(0) / per_unit,
          a.weight.stride(1),
          a.weight.size(1) / per_unit,
          a.zero_index,
          a.mailbox,
          a.op_id};
}
// A table without rows has nothing to stand in for a bad index.
inline bool nothing_to_gather(const EmbeddingForwardArgs& a) {
  return a.weight.numel() == 0 || a.out.numel() == 0;
}
void launch_naive(const EmbeddingForwardArgs& a, const Launch& l) {
  if (nothing_to_gather(a)) return;
  with_unit(item_size(a.weight.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<embedding_naive<U>>(grid_of(l, ceil_div(a.indices.numel(), 64), 64), gather_args<U>(a));
  });
}
template <class U>
void launch_elements(const EmbeddingForwardArgs& a, const Launch& l) {
  const EmbeddingGather<U> k = gather_args<U>(a);
  launch<embedding_elements<U>>(grid_of(l, ceil_div(k.rows.count * k.length, 128), 128), k);
}
void launch_coalesced(const EmbeddingForwardArgs& a, const Launch& l) {
  if (nothing_to_gather(a)) return;
  with_unit(item_size(a.weight.dtype()),
            [&](auto tag) { launch_elements<typename decltype(tag)::type>(a, l); });
}
const char* why_not_vectorized(const EmbeddingForwardArgs& a) {
  const i64 item = item_size(a.weight.dtype()), width = a.weight.size(1);
  const bool aligned =
      (reinterpret_cast<uintptr_t>(a.weight.data) | reinterpret_cast<uintptr_t>(a.out.data)) % 16 ==
          0 &&
      width * item % 16 == 0 && a.weight.stride(0) * item % 16 == 0 && a.weight.stride(1) == 1;
  return aligned ? nullptr : "the rows of table and output must lie at 16-byte boundaries";
}
void launch_vectorized(const EmbeddingForwardArgs& a, const Launch& l) {
  if (nothing_to_gather(a)) return;
  launch_elements<Pack16<u32>>(a, l);
}

// --- gradient ---

template <class T>
struct EmbeddingScatter {
  enum { GOut, Indices };  // the operands of `rows`
  Rows<2> rows;
  T* gweight;
  const T* gout;
  IndexList indices;
  i64 limit, width, skip_index;
  bool accumulate;
  // Sorted positions, and where each table row's begin and end among them.
  const u32 *positions, *begin, *end;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gweight), f(gout), f(indices.at), f(positions), f(begin), f(end);
  }
};

template <class T>
__global__ void __launch_bounds__(64) embedding_backward_naive(EmbeddingScatter<T> a) {
  using A = ComputeType<T>;
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.limit * a.width;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    // Every element of the table looks at every index: limit * width * n reads. Correct and without
    // a conflict, for no two threads write one place; hopeless for a vocabulary.
    const i64 v = e / a.width, d = e % a.width;
    A sum = a.accumulate ? A(a.gweight[e]) : A(0);
    if (v != a.skip_index)
      for (i64 i = 0; i < a.rows.count; ++i)
        if (a.indices[a.rows.start(a.Indices, i)] == v) sum += A(a.rows.row(a.GOut, a.gout, i)[d]);
    a.gweight[e] = T(sum);
  }
}

// keys[i] = index of position i, `limit` for what adds nothing; clears the ranges.
template <class T>
__global__ void __launch_bounds__(128)
    embedding_keys(EmbeddingScatter<T> a, u32* keys, u32* positions, u32* begin, u32* end) {
  const i64 stride = i64(gridDim.x) * blockDim.x,
            first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  for (i64 i = first; i < a.rows.count; i += stride) {
    const i64 v = a.indices[a.rows.start(a.Indices, i)];
    keys[i] = v < 0 || v >= a.limit || v == a.skip_index ? u32(a.limit) : u32(v);
    positions[i] = u32(i);
  }
  for (i64 v = first; v <= a.limit; v += stride) begin[v] = end[v] = 0;
}

__global__ void __launch_bounds__(128)
    embedding_ranges(const u32* keys, u32 n, u32* begin, u32* end) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  // Sorted: where the key differs from its neighbour a table row's positions begin or end.
  if (i == 0 || keys[i - 1] != keys[i]) begin[keys[i]] = i;
  if (i == n - 1 || keys[i + 1] != keys[i]) end[keys[i]] = i + 1;
}

constexpr int kSlices = 4;  // warps of a block, and table rows that it takes
// A table row with this many positions is shared by the block's warps, a run of the positions each.
constexpr u32 kFrequent = 16;

// sum += the gradients of positions [from, to), in order. Four of them are read at a time: each is
// somewhere else in memory, and one after the other would wait for each.
template <int Vec, class T>
__device__ __forceinline__ void add_positions(float (&sum)[Vec], const EmbeddingScatter<T>& a,
                                              i64 row_stride, i64 column, u32 from, u32 to) {
#pragma unroll 4
  for (u32 k = from; k < to; ++k) {
    if constexpr (Vec > 1) {
      const auto g = vload<Pack16<T>>(a.gout + a.positions[k] * row_stride + column);
#pragma unroll
      for (int j = 0; j < Vec; ++j) sum[j] += float(g.v[j]);
    } else {
      sum[0] += float(a.rows.row(a.GOut, a.gout, a.positions[k])[column]);
    }
  }
}
template <int Vec, class T>
__device__ __forceinline__ void write_row(const EmbeddingScatter<T>& a, i64 v, i64 column,
                                          const float (&sum)[Vec]) {
  T* const to = a.gweight + v * a.width + column;
  Pack<T, Vec> out{};
  if (a.accumulate) load_vector(out.v, to);
#pragma unroll
  for (int j = 0; j < Vec; ++j) out.v[j] = T(a.accumulate ? float(out.v[j]) + sum[j] : sum[j]);
  store_vector(to, out.v);
}

// Block (four table rows, 32 * Vec columns). Most rows of a vocabulary have a few positions or
// none: a warp adds them alone, without a barrier. A block a row and 32 columns would be a million
// blocks for 50,000 rows of 768, nearly all of them with nothing but their zeros to write.
// Vec = kPerPack<T>: the rows of gout are `row_stride` apart and, like gweight's, begin at 16-byte
// boundaries; Vec = 1: any. Twelve blocks a processor leave 40 registers: of itself ptxas aims at
// 32 for bf16, and spills.
template <class T, int Vec>
__global__ void __launch_bounds__(kSlices * 32, Vec > 1 ? 12 : 1)
    embedding_backward_rows(EmbeddingScatter<T> a, i64 row_stride) {
  // Lanes last: neighbours write and read neighbouring banks.
  WT_SHARED(float, parts, [kSlices][Vec][32]);
  const u32 slice = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 first_row = i64(blockIdx.x) * kSlices;
  for (i64 tile = i64(blockIdx.y) * 32 * Vec; tile < a.width; tile += i64(gridDim.y) * 32 * Vec) {
    const i64 column = tile + lane * Vec;
    const bool inside = column < a.width;
#pragma unroll 1
    for (i64 v = first_row; v < first_row + kSlices && v < a.limit; ++v) {
      const u32 begin = a.begin[v], count = a.end[v] - begin;
      if (count < kFrequent) continue;  // the same for the whole block
      // A quarter each of this row's positions, in order. The positions of one frequent token are
      // still the work of one block a tile.
      const u32 run = (count + kSlices - 1) / kSlices;
      const u32 from = slice * run < count ? slice * run : count;
      const u32 to = from + run < count ? from + run : count;
      float sum[Vec] = {};
      if (inside) add_positions<Vec>(sum, a, row_stride, column, begin + from, begin + to);
#pragma unroll
      for (int j = 0; j < Vec; ++j) parts[slice][j][lane] = sum[j];
      __syncthreads();
      if (slice == 0 && inside) {
        // In the order of the positions, whatever the order in which warps arrived.
#pragma unroll
        for (int j = 0; j < Vec; ++j)
          for (int k = 1; k < kSlices; ++k) sum[j] += parts[k][j][lane];
        write_row<Vec>(a, v, column, sum);
      }
      // The next row writes `parts` again, which warp 0 may still be reading.
      __syncthreads();
    }
    const i64 v = first_row + slice;
    if (v >= a.limit || !inside) continue;  // no barrier between here and the end of the turn
    const u32 begin = a.begin[v], end = a.end[v];
    if (end - begin >= kFrequent || (end == begin && a.accumulate)) continue;
    float sum[Vec] = {};
    add_positions<Vec>(sum, a, row_stride, column, begin, end);
    write_row<Vec>(a, v, column, sum);
  }
}

// How the workspace of `sorted` is laid out, in u32.
struct RangeSpace {
  PositionSortSpace sort;
  i64 limit, begin, end, total;
};
inline RangeSpace range_space(const EmbeddingBackwardArgs& a) {
  RangeSpace s;
  s.sort = position_sort_space(a.indices.numel());
  s.limit = a.gweight.size(0);
  s.begin = s.sort.total;
  s.end = s.begin + s.limit + 1;
  s.total = s.end + s.limit + 1;
  return s;
}
inline i64 sorted_workspace(const EmbeddingBackwardArgs& a) {
  return a.gweight.numel() == 0 ? 0 : 4 * range_space(a).total;
}

template <class T>
EmbeddingScatter<T> scatter_args(const EmbeddingBackwardArgs& a) {
  return {rows_along<2>(a.gout.ndim() - 1, {{a.gout}, {a.indices, false}}),
          a.gweight.as<T>(),
          a.gout.as<const T>(),
          {a.indices.data, a.indices.dtype() == DType::i64},
          a.gweight.size(0),
          a.gweight.size(1),
          a.skip_index,
          a.accumulate,
          nullptr,
          nullptr,
          nullptr};
}

void launch_naive(const EmbeddingBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.gweight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<embedding_backward_naive<T>>(grid_of(l, ceil_div(a.gweight.numel(), 64), 64),
                                        scatter_args<T>(a));
  });
}

const char* why_not_sorted(const EmbeddingBackwardArgs& a) {
  if (a.gweight.dtype() == DType::f64) return "f64 has the naive rung only";
  if (a.indices.numel() >= 1ll << 31 || a.gweight.size(0) >= 1ll << 31)
    return "positions and table rows are counted in 31 bits";
  return nullptr;
}
void launch_sorted(const EmbeddingBackwardArgs& a, const Launch& l) {
  if (a.gweight.numel() == 0) return;
  const RangeSpace space = range_space(a);
  const i64 n = space.sort.n;
  u32* w = static_cast<u32*>(l.workspace);
  with_float(a.gweight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    EmbeddingScatter<T> k = scatter_args<T>(a);
    u32 *begin = w + space.begin, *end = w + space.end;
    const i64 longest = n > space.limit ? n : space.limit + 1;
    launch<embedding_keys<T>>(grid_of(l, ceil_div(longest, 128), 128), k, w, w + n, begin, end);
    const SortedPositions sorted = sort_positions(l, w, space.sort, space.limit);
    launch<embedding_ranges>(grid_of(l, ceil_div(n, 128), 128), sorted.keys, u32(n), begin, end);
    k.positions = sorted.positions, k.begin = begin, k.end = end;
    constexpr i64 V = kPerPack<T>;
    // Positions one stride apart, and every row at a 16-byte boundary.
    const i64 row_stride = k.rows.dims > 0 ? k.rows.stride[k.GOut][0] : 0;
    const bool packs = k.rows.dims <= 1 && k.rows.unit_step(k.GOut) && row_stride % V == 0 &&
                       k.width % V == 0 && aligned_16(k.gout) && aligned_16(k.gweight);
    Config c = grid_of(l, ceil_div(space.limit, kSlices), kSlices * 32);
    const i64 tiles = ceil_div(k.width, packs ? 32 * V : 32);
    c.grid.y = unsigned(tiles < 64 ? tiles : 64);
    if (packs)
      launch<embedding_backward_rows<T, int(V)>>(c, k, row_stride);
    else
      launch<embedding_backward_rows<T, 1>>(c, k, row_stride);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, embedding_forward, EmbeddingForwardArgs,
    {.name = "vectorized", .rank = 30, .why_not = why_not_vectorized, .launch = launch_vectorized},
    {.name = "coalesced", .rank = 20, .launch = launch_coalesced},
    {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, embedding_backward, EmbeddingBackwardArgs,
            {.name = "sorted",
             .rank = 20,
             .why_not = why_not_sorted,
             .workspace = sorted_workspace,
             .launch = launch_sorted},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
