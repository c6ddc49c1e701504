// softmax and log_softmax on simt and cuda. The ladder:
//   naive   one thread a row, three passes over it; neighbouring threads read far apart
//   column  the axis is not the last one: neighbouring threads take neighbouring columns
//   warp    one warp a row of at most 1024, which stays in registers: one read, one write
//   block   one block a row of any length: one online pass, the row kept in shared memory if it
//           fits, else read again
#include "warptape/kernels/softmax.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/online_softmax.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct SoftmaxForward {
  enum { Y, X };  // the operands of `rows`
  Rows<2> rows;
  T* y;
  const T* x;
  bool log;
  bool cached;  // block: dynamic shared memory holds the row
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x);
  }
};
template <class T>
struct SoftmaxBackward {
  enum { GX, GY, Y };  // the operands of `rows`
  Rows<3> rows;
  T* gx;
  const T *gy, *y;
  bool log;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(y);
  }
};

// One output from its input, the row's maximum and what the sum of exponentials became: its
// reciprocal for softmax, its logarithm for log_softmax.
template <class T, class A>
__device__ __forceinline__ A softmax_value(A x, A max, A scale, bool log) {
  return log ? x - max - scale : exp_for<T>(x - max) * scale;
}
template <class A>
__device__ __forceinline__ A scale_of(A sum, bool log) {
  return log ? logarithm(sum) : A(1) / sum;
}
// What is summed over a row, and one gradient from that sum.
template <class A>
__device__ __forceinline__ A backward_term(A gy, A y, bool log) {
  return log ? gy : gy * y;
}
template <class T, class A>
__device__ __forceinline__ A backward_value(A gy, A y, A sum, bool log) {
  return log ? gy - exp_for<T>(y) * sum : y * (gy - sum);
}

// --- naive ---

template <class T>
__global__ void __launch_bounds__(64) softmax_naive(SoftmaxForward<T> a) {
  using A = ComputeType<T>;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows.count) return;
  const auto x = a.rows.row(a.X, a.x, row);
  const auto y = a.rows.row(a.Y, a.y, row);
  // The lanes of a warp read a row apart from each other: 32 sectors of 32 bytes for 32 elements.
  // The next elements of those sectors are wanted in the next turns of the loop, and come from L1
  // if the other warps have left them there.
  const i64 n = a.rows.length;
  A largest = A(-INFINITY), sum = 0;
  // exp(89) is beyond f32: with the largest element taken off every exponential is at most 1 and
  // one of them is 1. The price is a pass of its own, which the rungs above save.
  for (i64 i = 0; i < n; ++i) largest = max(largest, A(x[i]));
  for (i64 i = 0; i < n; ++i) sum += exp_for<T>(A(x[i]) - largest);
  const A scale = scale_of(sum, a.log);
  // The exponentials are computed anew: there are no registers for a row of any length.
  for (i64 i = 0; i < n; ++i) y[i] = T(softmax_value<T>(A(x[i]), largest, scale, a.log));
}

template <class T>
__global__ void __launch_bounds__(64) softmax_backward_naive(SoftmaxBackward<T> a) {
  using A = ComputeType<T>;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows.count) return;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto y = a.rows.row(a.Y, a.y, row);
  const i64 n = a.rows.length;
  A sum = 0;
  for (i64 i = 0; i < n; ++i) sum += backward_term(A(gy[i]), A(y[i]), a.log);
  for (i64 i = 0; i < n; ++i) gx[i] = T(backward_value<T>(A(gy[i]), A(y[i]), sum, a.log));
}

// --- column ---

constexpr int kColumns = 32, kSplits = 8;  // a block: 32 rows beside each other, 8 threads on each

template <class T>
__global__ void __launch_bounds__(kColumns* kSplits) softmax_column(SoftmaxForward<T> a) {
  // A warp is one split: its 32 lanes hold 32 neighbouring columns, so element i of all of them is
  // one read of 128 bytes (f32) in a row, and [split][column] puts them into 32 different banks.
  WT_SHARED(float, maxima, [kSplits][kColumns]);
  WT_SHARED(float, sums, [kSplits][kColumns]);
  const int column = int(threadIdx.x) % kColumns, split = int(threadIdx.x) / kColumns;
  const i64 row = i64(blockIdx.x) * kColumns + column;
  const bool live = row < a.rows.count;
  // A thread without a row takes none of its elements, but stays: it has to come to the barrier,
  // too.
  const auto x = a.rows.row(a.X, a.x, live ? row : 0);
  const auto y = a.rows.row(a.Y, a.y, live ? row : 0);
  const i64 n = live ? a.rows.length : 0;
  OnlineSoftmax<T> state;
  for (i64 i = split; i < n; i += kSplits) state.add(float(x[i]));
  maxima[split][column] = state.max;
  sums[split][column] = state.sum;
  __syncthreads();
  // Without the barrier above this would read what the warps of other splits have not written yet.
  // All eight threads of a column add the eight parts in the same order, so that they agree to the
  // last bit.
  float largest = maxima[0][column], sum = 0;
  for (int k = 1; k < kSplits; ++k) largest = max(largest, maxima[k][column]);
  for (int k = 0; k < kSplits; ++k) sum += rescaled<T>(sums[k][column], maxima[k][column], largest);
  const float scale = scale_of(sum, a.log);
  // The second read of x: from L2, as far as it holds 32 columns a block of all blocks that run.
  for (i64 i = split; i < n; i += kSplits)
    y[i] = T(softmax_value<T>(float(x[i]), largest, scale, a.log));
}

template <class T>
__global__ void __launch_bounds__(kColumns* kSplits) softmax_backward_column(SoftmaxBackward<T> a) {
  WT_SHARED(float, sums, [kSplits][kColumns]);
  const int column = int(threadIdx.x) % kColumns, split = int(threadIdx.x) / kColumns;
  const i64 row = i64(blockIdx.x) * kColumns + column;
  const bool live = row < a.rows.count;
  const auto gx = a.rows.row(a.GX, a.gx, live ? row : 0);
  const auto gy = a.rows.row(a.GY, a.gy, live ? row : 0);
  const auto y = a.rows.row(a.Y, a.y, live ? row : 0);
  const i64 n = live ? a.rows.length : 0;
  float part = 0;
  for (i64 i = split; i < n; i += kSplits) part += backward_term(float(gy[i]), float(y[i]), a.log);
  sums[split][column] = part;
  __syncthreads();
  float sum = 0;
  // gx[i] needs the sum over all of the row, seven eighths of which other warps have.
  for (int k = 0; k < kSplits; ++k) sum += sums[k][column];
  for (i64 i = split; i < n; i += kSplits)
    gx[i] = T(backward_value<T>(float(gy[i]), float(y[i]), sum, a.log));
}

// --- warp ---

constexpr int kWarpLongest = 1024;

template <class T, int Vec, int PerLane>
__global__ void __launch_bounds__(kTeamWarps * 32) softmax_warp(SoftmaxForward<T> a) {
  const int lane = int(threadIdx.x) % 32, n = int(a.rows.length);
  // Warps never wait for each other here, so one without a row may leave at once: there is no
  // barrier, and a shuffle asks only for the lanes of its own warp.
  const i64 row = i64(blockIdx.x) * kTeamWarps + threadIdx.x / 32;
  if (row >= a.rows.count) return;
  // The row lies in 32 * PerLane registers of the warp. Pack k of lane l is number k * 32 + l of
  // the row, so that one load instruction reads 32 packs that are neighbours: 512 bytes, or 128
  // where rows begin off the 16-byte boundaries. PerLane neighbours a lane would be 32 separate
  // places. What lies past the end reads as -inf, which no maximum takes.
  float v[PerLane];
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, -INFINITY);
  float largest = v[0], sum = 0;
#pragma unroll
  for (int k = 1; k < PerLane; ++k) largest = max(largest, v[k]);
  // Five shuffles, register to register: no shared memory, no barrier.
  largest = warp_reduce(largest, Larger());
  if (a.log) {
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      v[k] -= largest;
      // The element that register k holds; the division is by a constant, in a loop that is
      // unrolled.
      const bool inside = (k / Vec * 32 + lane) * Vec + k % Vec < n;
      sum += inside ? exp_for<T>(v[k]) : 0.0f;
    }
    const float scale = logarithm(warp_reduce(sum, Plus()));
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] -= scale;
  } else {
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      const bool inside = (k / Vec * 32 + lane) * Vec + k % Vec < n;
      // Kept where x was: the exponentials are not computed twice, as naive has to.
      v[k] = inside ? exp_for<T>(v[k] - largest) : 0.0f;
      sum += v[k];
    }
    const float scale = 1.0f / warp_reduce(sum, Plus());
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] *= scale;
  }
  store_lane<Vec>(a.y + a.rows.start(a.Y, row), v, n, lane);
}

template <class T, int Vec, int PerLane>
__global__ void __launch_bounds__(kTeamWarps * 32) softmax_backward_warp(SoftmaxBackward<T> a) {
  const int lane = int(threadIdx.x) % 32, n = int(a.rows.length);
  const i64 row = i64(blockIdx.x) * kTeamWarps + threadIdx.x / 32;
  if (row >= a.rows.count) return;
  // 2 * PerLane registers: 64 for rows of 1024, which is why the rung ends there. Padding of 0 adds
  // nothing.
  float gy[PerLane], y[PerLane], sum = 0;
  load_lane<Vec>(gy, a.gy + a.rows.start(a.GY, row), n, lane, 0);
  load_lane<Vec>(y, a.y + a.rows.start(a.Y, row), n, lane, 0);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) sum += backward_term(gy[k], y[k], a.log);
  sum = warp_reduce(sum, Plus());
#pragma unroll
  for (int k = 0; k < PerLane; ++k) gy[k] = backward_value<T>(gy[k], y[k], sum, a.log);
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), gy, n, lane);
}

// --- block ---

template <class T>
__global__ void __launch_bounds__(kRowThreadsMost) softmax_block(SoftmaxForward<T> a) {
  WT_DYN_SHARED(Pack16<T>, cache);  // each thread reads back what it wrote itself: no barrier
  const i64 n = a.rows.length, t = threadIdx.x, threads = blockDim.x;
  for (i64 row = blockIdx.x; row < a.rows.count; row += gridDim.x) {
    const auto x = a.rows.row(a.X, a.x, row);
    const auto y = a.rows.row(a.Y, a.y, row);
    // A row may begin anywhere. 16-byte accesses must not, so the elements before the first
    // boundary and after the last are taken one by one.
    const PackSplit split = split_into_packs<T>(x.data, y.data, n, x.step == 1 && y.step == 1);
    OnlineSoftmax<T> state;
    for (i64 i = t; i < split.head; i += threads) state.add(float(x[i]));
    for (i64 p = t; p < split.packs; p += threads) {
      const auto v = vload<Pack16<T>>(x.data + split.head + p * kPerPack<T>);
      state.add(v);
      // A row of 160 KiB leaves no room for a second such block on the processor. It is worth it: x
      // then leaves memory once, 2 bytes moved for a byte of result and not 3.
      if (a.cached) cache[p] = v;
    }
    for (i64 i = split.tail + t; i < n; i += threads) state.add(float(x[i]));
    // Maximum first, because the parts of the sum stand on different maxima: each is brought onto
    // the common one before they are added.
    const float largest = block_reduce(state.max, Larger());
    const float sum = block_reduce(rescaled<T>(state.sum, state.max, largest), Plus());
    const float scale = scale_of(sum, a.log);
    for (i64 i = t; i < split.head; i += threads)
      y[i] = T(softmax_value<T>(float(x[i]), largest, scale, a.log));
    for (i64 p = t; p < split.packs; p += threads) {
      const i64 at = split.head + p * kPerPack<T>;
      Pack16<T> v = a.cached ? cache[p] : vload<Pack16<T>>(x.data + at);
#pragma unroll
      for (T& e : v.v) e = T(softmax_value<T>(float(e), largest, scale, a.log));
      vstore(y.data + at, v);
    }
    for (i64 i = split.tail + t; i < n; i += threads)
      y[i] = T(softmax_value<T>(float(x[i]), largest, scale, a.log));
  }
}

template <class T>
__global__ void __launch_bounds__(kRowThreadsMost) softmax_backward_block(SoftmaxBackward<T> a) {
  const i64 n = a.rows.length, t = threadIdx.x, threads = blockDim.x;
  for (i64 row = blockIdx.x; row < a.rows.count; row += gridDim.x) {
    const auto gx = a.rows.row(a.GX, a.gx, row);
    const auto gy = a.rows.row(a.GY, a.gy, row);
    const auto y = a.rows.row(a.Y, a.y, row);
    const bool neighbours =
        gx.step == 1 && gy.step == 1 && y.step == 1 &&
        ((reinterpret_cast<uintptr_t>(gx.data) ^ reinterpret_cast<uintptr_t>(y.data)) & 15) == 0;
    // One split for three operands: packs only where all three are at the same distance from a
    // boundary.
    const PackSplit split = split_into_packs<T>(gy.data, y.data, n, neighbours);
    float sum = 0;
    for (i64 i = t; i < split.head; i += threads)
      sum += backward_term(float(gy[i]), float(y[i]), a.log);
    for (i64 p = t; p < split.packs; p += threads) {
      const i64 at = split.head + p * kPerPack<T>;
      const auto g = vload<Pack16<T>>(gy.data + at), v = vload<Pack16<T>>(y.data + at);
#pragma unroll
      for (int j = 0; j < kPerPack<T>; ++j)
        sum += backward_term(float(g.v[j]), float(v.v[j]), a.log);
    }
    for (i64 i = split.tail + t; i < n; i += threads)
      sum += backward_term(float(gy[i]), float(y[i]), a.log);
    // Every thread gets the same bits: parts are added by lane distance, then by warp number.
    sum = block_reduce(sum, Plus());
    const auto single = [&](i64 i) WT_INLINE_LAMBDA {
      gx[i] = T(backward_value<T>(float(gy[i]), float(y[i]), sum, a.log));
    };
    for (i64 i = t; i < split.head; i += threads) single(i);
    for (i64 p = t; p < split.packs; p += threads) {
      const i64 at = split.head + p * kPerPack<T>;
      // Read again and not kept: two rows of the forward's limit would be more shared memory than
      // there is.
      auto g = vload<Pack16<T>>(gy.data + at);
      const auto v = vload<Pack16<T>>(y.data + at);
#pragma unroll
      for (int j = 0; j < kPerPack<T>; ++j)
        g.v[j] = T(backward_value<T>(float(g.v[j]), float(v.v[j]), sum, a.log));
      vstore(gx.data + at, g);
    }
    for (i64 i = split.tail + t; i < n; i += threads) single(i);
  }
}

// --- choice and launch ---

inline Rows<2> rows_of(const SoftmaxForwardArgs& a) {
  return rows_along<2>(a.axis, {{a.y}, {a.x}});
}
inline Rows<3> rows_of(const SoftmaxBackwardArgs& a) {
  return rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
}
template <class T>
SoftmaxForward<T> kernel_args(const SoftmaxForwardArgs& a) {
  return {rows_of(a), a.y.as<T>(), a.x.as<const T>(), a.log, false};
}
template <class T>
SoftmaxBackward<T> kernel_args(const SoftmaxBackwardArgs& a) {
  return {rows_of(a), a.gx.as<T>(), a.gy.as<const T>(), a.y.as<const T>(), a.log};
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

void launch_naive(const SoftmaxForwardArgs& a, const Launch& l) {
  with_float_or_double(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<softmax_naive<T>>(grid_of(l, k.rows.length ? ceil_div(k.rows.count, 64) : 0, 64), k);
  });
}
void launch_naive(const SoftmaxBackwardArgs& a, const Launch& l) {
  with_float_or_double(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<softmax_backward_naive<T>>(
        grid_of(l, k.rows.length ? ceil_div(k.rows.count, 64) : 0, 64), k);
  });
}

void launch_column(const SoftmaxForwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    // Rows, not elements, are what is divided: few long columns leave most of the machine idle.
    launch<softmax_column<T>>(grid_of(l, ceil_div(k.rows.count, kColumns), kColumns * kSplits), k);
  });
}
void launch_column(const SoftmaxBackwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<softmax_backward_column<T>>(
        grid_of(l, ceil_div(k.rows.count, kColumns), kColumns * kSplits), k);
  });
}

template <class T, int Vec>
void launch_warp_rows(const SoftmaxForward<T>& k, const Config& c) {
  // Two sizes: 32 registers a lane for a row of 100 would hold mostly padding, and fewer warps fit
  // on a processor.
  if (k.rows.length <= 256)
    launch<softmax_warp<T, Vec, 8>>(c, k);
  else
    launch<softmax_warp<T, Vec, 32>>(c, k);
}
template <class T, int Vec>
void launch_warp_rows(const SoftmaxBackward<T>& k, const Config& c) {
  if (k.rows.length <= 256)
    launch<softmax_backward_warp<T, Vec, 8>>(c, k);
  else
    launch<softmax_backward_warp<T, Vec, 32>>(c, k);
}
void launch_warp(const SoftmaxForwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int vec = kPerPack<T>;
    const auto k = kernel_args<T>(a);
    const Config c =
        grid_of(l, k.rows.length ? ceil_div(k.rows.count, kTeamWarps) : 0, kTeamWarps * 32);
    if (rows_aligned(k.rows, {k.y, k.x}, vec))
      launch_warp_rows<T, vec>(k, c);
    else
      launch_warp_rows<T, 1>(k, c);
  });
}
void launch_warp(const SoftmaxBackwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int vec = kPerPack<T>;
    const auto k = kernel_args<T>(a);
    const Config c =
        grid_of(l, k.rows.length ? ceil_div(k.rows.count, kTeamWarps) : 0, kTeamWarps * 32);
    if (rows_aligned(k.rows, {k.gx, k.gy, k.y}, vec))
      launch_warp_rows<T, vec>(k, c);
    else
      launch_warp_rows<T, 1>(k, c);
  });
}

void launch_block(const SoftmaxForwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto k = kernel_args<T>(a);
    const i64 packs = ceil_div(k.rows.length, kPerPack<T>);
    k.cached = packs * 16 <= row_cache_limit(l) && unit_steps(k.rows);
    launch<softmax_block<T>>(
        grid_of(l, k.rows.length ? k.rows.count : 0, row_threads(packs), k.cached ? packs * 16 : 0),
        k);
  });
}
void launch_block(const SoftmaxBackwardArgs& a, const Launch& l) {
  with_float(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    const i64 packs = ceil_div(k.rows.length, kPerPack<T>);
    launch<softmax_backward_block<T>>(
        grid_of(l, k.rows.length ? k.rows.count : 0, row_threads(packs)), k);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_SOFTMAX_LADDER(Args)                                                                 \
  {.name = "warp", .rank = 40, .why_not = why_not_warp<Args>, .launch = launch_warp},           \
      {.name = "column", .rank = 30, .why_not = why_not_column<Args>, .launch = launch_column}, \
      {.name = "block", .rank = 20, .why_not = not_double<Args>, .launch = launch_block}, {     \
    .name = "naive", .rank = 10, .launch = launch_naive                                         \
  }
WT_VARIANTS(WT_DEVICE_NS, softmax_forward, SoftmaxForwardArgs,
            WT_SOFTMAX_LADDER(SoftmaxForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, softmax_backward, SoftmaxBackwardArgs,
            WT_SOFTMAX_LADDER(SoftmaxBackwardArgs));

}  // namespace wt
