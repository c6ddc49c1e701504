// What the vector variants of the optimizers share.
#pragma once
#include <cmath>

#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86

template <class Args>
const char* optim_why_not(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

// How rules take roots: y = sqrt(x).
struct SquareRoot {
  WT_TARGET_AVX2 void operator()(const f32x8& x, f32x8& y) const {
    y = f32x8(_mm256_sqrt_ps(__m256(x)));
  }
  WT_TARGET_AVX2 void operator()(const float& x, float& y) const { y = std::sqrt(x); }
};

#endif
}  // namespace wt
