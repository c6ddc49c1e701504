// Layer normalisation's gradient of the input, for norm/norm_gradient.cuh.
#pragma once
#include "warptape/kernels/norm/norm_gradient.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class A>
struct LayerNormGradient {
  using Sums = TwoSums<A>;  // of g, and of g * h
  using Plus = PlusBoth;
  A mean, rstd;

  __device__ __forceinline__ LayerNormGradient(A row_mean, A row_rstd)
      : mean(row_mean), rstd(row_rstd) {}
  __device__ __forceinline__ A h(A x) const { return (x - mean) * rstd; }
  __device__ __forceinline__ A padding() const { return mean; }
  __device__ __forceinline__ Sums add(Sums sums, A g, A h) const {
    return Plus()(sums, Sums{g, g * h});
  }
  __device__ __forceinline__ Sums means(Sums sums, A n) const {
    return {sums.first / n, sums.second / n};
  }
  __device__ __forceinline__ A gx(A g, A h, Sums means) const {
    return rstd * (g - means.first - h * means.second);
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
