// softmax and log_softmax on simt and cuda, forward; kernels/softmax/softmax.cuh has the ladder.
#include "warptape/kernels/softmax.h"

#include "warptape/kernels/softmax/softmax.cuh"

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

// --- column ---

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
  constexpr int kAhead = kColumnAhead;
  OnlineSoftmax<T> state;
  T v[kAhead];
  for (i64 i = split; i < n; i += kAhead * kSplits) {
    load_split(v, x, i, n, T(-INFINITY));  // adds nothing
    state.add(v);
  }
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
  const auto put = [&](i64 i) WT_INLINE_LAMBDA {
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * kSplits < n)
        y[i + k * kSplits] = T(softmax_value<T>(float(v[k]), largest, scale, a.log));
  };
  // Columns of one turn are in registers still.
  if (n <= kAhead * kSplits) return put(split);
  // The second read of x: from L2, as far as it holds 32 columns a block of all blocks that run.
  for (i64 i = split; i < n; i += kAhead * kSplits) {
    load_split(v, x, i, n, T(0.0f));
    put(i);
  }
}

// --- warp ---

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

// --- launch ---

template <class T>
SoftmaxForward<T> kernel_args(const SoftmaxForwardArgs& a) {
  return {rows_of(a), a.y.as<T>(), a.x.as<const T>(), a.log, false};
}

void launch_naive(const SoftmaxForwardArgs& a, const Launch& l) {
  with_float_or_double(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<softmax_naive<T>>(grid_of(l, k.rows.length ? ceil_div(k.rows.count, 64) : 0, 64), k);
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

template <class T, int Vec>
void launch_warp_rows(const SoftmaxForward<T>& k, const Config& c) {
  // Two sizes: 32 registers a lane for a row of 100 would hold mostly padding, and fewer warps fit
  // on a processor.
  if (k.rows.length <= 256)
    launch<softmax_warp<T, Vec, 8>>(c, k);
  else
    launch<softmax_warp<T, Vec, 32>>(c, k);
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

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, softmax_forward, SoftmaxForwardArgs,
            WT_SOFTMAX_LADDER(SoftmaxForwardArgs));

}  // namespace wt
