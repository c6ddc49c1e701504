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

  __device__ __forceinline__ LayerNormGradient(const A* stats, i64 rows, i64 row)
      : mean(stats[row]), rstd(stats[2 * rows + row]) {}
  // Without what the mean's rounding left, which `means` makes good: it is the same for all
  // elements, and a register less while the row is walked.
  __device__ __forceinline__ A h(A x) const { return (x - mean) * rstd; }
  __device__ __forceinline__ A padding() const { return mean; }
  __device__ __forceinline__ Sums add(Sums sums, A g, A h) const {
    return Plus()(sums, Sums{g, g * h});
  }
  __device__ __forceinline__ Sums means(Sums sums, A n, A rest) const {
    const A e = rest * rstd, first = sums.first / n, second = sums.second / n - e * first;
    return {first - e * second, second};
  }
  __device__ __forceinline__ A gx(A g, A h, Sums means) const {
    return rstd * (g - means.first - h * means.second);
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
