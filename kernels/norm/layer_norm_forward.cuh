// Layer normalisation's statistics of a row, and what it makes of them, for
// norm/norm_forward.cuh.
#pragma once
#include "warptape/kernels/norm/norm_forward.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// In float one instruction, right to 2 units in the last place; f64 has none, and divides.
__device__ __forceinline__ float reciprocal_root(float v) { return rsqrtf(v); }
__device__ __forceinline__ double reciprocal_root(double v) { return 1 / sqrt(v); }

template <class A>
struct LayerNormScale {
  static constexpr bool kBias = true;
  A centre, rest, rstd;  // the mean, in two parts: `rest` is what `centre` lacks

  // From the sums of x - centre and of its square over a row. The first would be 0 but for what
  // rounding took from the mean: it corrects mean and variance.
  __device__ __forceinline__ LayerNormScale(A near_mean, TwoSums<A> distances, i64 n, A eps)
      : centre(near_mean),
        rest(distances.first / A(n)),
        rstd(reciprocal_root(distances.second / A(n) - rest * rest + eps)) {}
  __device__ __forceinline__ A mean() const { return centre + rest; }
  __device__ __forceinline__ A left_of_mean() const { return left_of_sum(centre, rest, mean()); }
  __device__ __forceinline__ A h(A x) const { return (x - centre - rest) * rstd; }

  // --- naive ---

  template <class T>
  static __device__ __forceinline__ LayerNormScale of_row(const RowOf<const T>& x, i64 n, A eps) {
    A mean = 0;  // the sum is taken from the first element on: a long one would lose an offset
    // Neighbouring threads are a row apart: each of these loads asks for 32 sectors of 32 bytes, of
    // which an element each is wanted now.
    for (i64 i = 0; i < n; ++i) mean += A(x[i]) - A(x[0]);
    mean = A(x[0]) + mean / A(n);
    TwoSums<A> distances{0, 0};
    for (i64 i = 0; i < n; ++i) {
      // Squares of distances, never the square of the mean off the mean of squares: at a mean of
      // 1e4 and a variance of 1 both are 1e8, where f32 counts in steps of 8.
      const A d = A(x[i]) - mean;
      distances = PlusBoth()(distances, TwoSums<A>{d, d * d});
    }
    return {mean, distances, n, eps};
  }

  // --- warp: x, in v, becomes h ---

  template <int Vec, int PerLane>
  static __device__ __forceinline__ LayerNormScale normalise_lane(float (&v)[PerLane], int n,
                                                                  int lane, float eps) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PerLane; ++k) sum += v[k];
    // A butterfly: after five shuffles every lane has the sum, with the same bits, and no lane need
    // tell the others.
    const float mean = warp_reduce(sum, Plus()) / float(n);
    TwoSums<float> distances{0, 0};
#pragma unroll
    for (int k = 0; k < PerLane; ++k) {
      // What lies past the end of the row must add no distance: it is 0 from here on.
      v[k] = (k / Vec * 32 + lane) * Vec + k % Vec < n ? v[k] - mean : 0.0f;
      distances = PlusBoth()(distances, TwoSums<float>{v[k], v[k] * v[k]});
    }
    const LayerNormScale s(mean, warp_reduce(distances, PlusBoth()), n, eps);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] = (v[k] - s.rest) * s.rstd;
    return s;
  }

  // --- block: a second walk, for a distance needs the mean ---

  static __device__ __forceinline__ float term(float x) { return x; }
  template <class Each>
  static __device__ __forceinline__ LayerNormScale of_block(float sum, i64 n, float eps,
                                                            const Each& each) {
    const float mean = sum / float(n);
    TwoSums<float> distances{0, 0};
    each([&](float x) WT_INLINE_LAMBDA {
      const float d = x - mean;
      distances = PlusBoth()(distances, TwoSums<float>{d, d * d});
    });
    return {mean, block_reduce(distances, PlusBoth()), n, eps};
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
