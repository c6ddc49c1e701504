// Root mean square normalisation: its statistic of a row, for norm/norm_forward.cuh, and its
// gradient, for norm/norm_gradient.cuh.
#pragma once
#include "warptape/kernels/norm/norm_forward.cuh"
#include "warptape/kernels/norm/norm_gradient.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class A>
struct RmsScale {
  static constexpr bool kBias = false;
  A rstd;

  // An exact root and quotient: once a row they cost nothing, and all of the row is multiplied by
  // it.
  __device__ __forceinline__ RmsScale(A squares, i64 n, A eps)
      : rstd(A(1) / sqrt(squares / A(n) + eps)) {}
  __device__ __forceinline__ A mean() const { return 0; }  // for layer_norm's gradient of weight
  __device__ __forceinline__ A left_of_mean() const { return 0; }
  __device__ __forceinline__ A h(A x) const { return x * rstd; }

  // --- naive ---

  template <class T>
  static __device__ __forceinline__ RmsScale of_row(const RowOf<const T>& x, i64 n, A eps) {
    A squares = 0;  // of one sign: nothing cancels, and no offset needs to be taken off
    for (i64 i = 0; i < n; ++i) squares += A(x[i]) * A(x[i]);
    return {squares, n, eps};
  }

  // --- warp: x, in v, becomes h ---

  template <int Vec, int PerLane>
  static __device__ __forceinline__ RmsScale normalise_lane(float (&v)[PerLane], int n, int,
                                                            float eps) {
    float squares = 0;
    // What lies past the end reads as 0, which adds no square: no condition as layer_norm needs
    // one.
#pragma unroll
    for (int k = 0; k < PerLane; ++k) squares += v[k] * v[k];
    const RmsScale s(warp_reduce(squares, Plus()), n, eps);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] = s.h(v[k]);
    return s;
  }

  // --- block: the first walk is enough ---

  static __device__ __forceinline__ float term(float x) { return x * x; }
  template <class Each>
  static __device__ __forceinline__ RmsScale of_block(float squares, i64 n, float eps,
                                                      const Each&) {
    return {squares, n, eps};
  }
};

template <class A>
struct RmsGradient {
  using Sums = A;  // of g * h
  using Plus = WT_DEVICE_NS::Plus;
  A rstd;

  __device__ __forceinline__ RmsGradient(const A* stats, i64 rows, i64 row)
      : rstd(stats[2 * rows + row]) {}
  __device__ __forceinline__ A h(A x) const { return x * rstd; }
  __device__ __forceinline__ A padding() const { return 0; }
  __device__ __forceinline__ A add(A sum, A g, A h) const { return sum + g * h; }
  __device__ __forceinline__ A means(A sum, A n, A) const { return sum / n; }
  __device__ __forceinline__ A gx(A g, A h, A mean) const { return rstd * (g - h * mean); }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
