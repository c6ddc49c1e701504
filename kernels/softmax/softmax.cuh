// What softmax's forward and backward share. The ladder of both:
//   naive   one thread a row, three passes over it; neighbouring threads read far apart
//   column  the axis is not the last one: neighbouring threads take neighbouring columns
//   warp    one warp a row of at most 1024, which stays in registers: one read, one write
//   block   one block a row of any length: one online pass, the row kept in shared memory if it
//           fits, else read again
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/online_softmax.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/softmax.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- column ---

constexpr int kColumns = 32, kSplits = 8;  // a block: 32 rows beside each other, 8 threads on each
// Elements of a thread under way at once. One at a time, a turn of the loop would be a wait for
// memory; with 16 the addresses alone take so many registers that half of the threads fit.
constexpr int kColumnAhead = 8;

// Elements i, i + kSplits, ... of a row of n; what lies past its end is `pad`.
template <int N, class T>
__device__ __forceinline__ void load_split(T (&v)[N], const RowOf<const T>& row, i64 i, i64 n,
                                           T pad) {
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = i + k * kSplits < n ? row[i + k * kSplits] : pad;
}

// --- warp ---

constexpr int kWarpLongest = 1024;

// --- choice ---

inline Rows<2> rows_of(const SoftmaxForwardArgs& a) {
  return rows_along<2>(a.axis, {{a.y}, {a.x}});
}
inline Rows<3> rows_of(const SoftmaxBackwardArgs& a) {
  return rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
}
inline DType dtype_of(const SoftmaxForwardArgs& a) { return a.x.dtype(); }
inline DType dtype_of(const SoftmaxBackwardArgs& a) { return a.y.dtype(); }

template <class Args>
const char* not_double(const Args& a) {
  return dtype_of(a) == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
template <class Args>
const char* why_not_column(const Args& a) {
  if (unit_steps(rows_of(a))) return "the axis is the innermost one: a warp or block takes the row";
  return not_double(a);
}
template <class Args>
const char* why_not_warp(const Args& a) {
  const auto rows = rows_of(a);
  if (rows.length > kWarpLongest) return "rows of at most 1024 elements";
  if (!unit_steps(rows)) return "the elements of a row must be neighbours";
  return not_double(a);
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_SOFTMAX_LADDER(Args)                                                                 \
  {.name = "warp", .rank = 40, .why_not = why_not_warp<Args>, .launch = launch_warp},           \
      {.name = "column", .rank = 30, .why_not = why_not_column<Args>, .launch = launch_column}, \
      {.name = "block", .rank = 20, .why_not = not_double<Args>, .launch = launch_block}, {     \
    .name = "naive", .rank = 10, .launch = launch_naive                                         \
  }

}  // namespace wt
