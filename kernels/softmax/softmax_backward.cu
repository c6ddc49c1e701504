// softmax and log_softmax on simt and cuda, backward; kernels/softmax/softmax.cuh has the ladder.
#include "warptape/kernels/softmax.h"

#include "warptape/kernels/softmax/softmax.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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
  constexpr int kAhead = kColumnAhead / 2;  // of two operands
  T g[kAhead], v[kAhead];
  float part = 0;
  for (i64 i = split; i < n; i += kAhead * kSplits) {
    load_split(g, gy, i, n, T(0.0f));
    load_split(v, y, i, n, T(0.0f));
#pragma unroll
    for (int k = 0; k < kAhead; ++k) part += backward_term(float(g[k]), float(v[k]), a.log);
  }
  sums[split][column] = part;
  __syncthreads();
  float sum = 0;
  // gx[i] needs the sum over all of the row, seven eighths of which other warps have.
  for (int k = 0; k < kSplits; ++k) sum += sums[k][column];
  const auto put = [&](i64 i) WT_INLINE_LAMBDA {
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * kSplits < n)
        gx[i + k * kSplits] = T(backward_value<T>(float(g[k]), float(v[k]), sum, a.log));
  };
  // Columns of one turn are in registers still.
  if (n <= kAhead * kSplits) return put(split);
  for (i64 i = split; i < n; i += kAhead * kSplits) {
    load_split(g, gy, i, n, T(0.0f));
    load_split(v, y, i, n, T(0.0f));
    put(i);
  }
}

// --- warp ---

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

// --- launch ---

template <class T>
SoftmaxBackward<T> kernel_args(const SoftmaxBackwardArgs& a) {
  return {rows_of(a), a.gx.as<T>(), a.gy.as<const T>(), a.y.as<const T>(), a.log};
}

void launch_naive(const SoftmaxBackwardArgs& a, const Launch& l) {
  with_float_or_double(dtype_of(a), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<softmax_backward_naive<T>>(
        grid_of(l, k.rows.length ? ceil_div(k.rows.count, 64) : 0, 64), k);
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
void launch_warp_rows(const SoftmaxBackward<T>& k, const Config& c) {
  if (k.rows.length <= 256)
    launch<softmax_backward_warp<T, Vec, 8>>(c, k);
  else
    launch<softmax_backward_warp<T, Vec, 32>>(c, k);
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

WT_VARIANTS(WT_DEVICE_NS, softmax_backward, SoftmaxBackwardArgs,
            WT_SOFTMAX_LADDER(SoftmaxBackwardArgs));

}  // namespace wt
