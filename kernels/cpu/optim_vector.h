// What the vector variants of the optimizers share.
#pragma once
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86

template <class Args>
const char* optim_why_not(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

// How rules take roots: y = sqrt(x).
struct SquareRoot8 {
  WT_TARGET_AVX2 void operator()(const f32x8& x, f32x8& y) const {
    y = f32x8(_mm256_sqrt_ps(__m256(x)));
  }
};

// Elements [i, i + 8) of an operand that ends at n, and their way back. What lies past the end is 0
// and stays where it is.
WT_AVX2_HOT f32x8 load_until(const float* p, i64 i, i64 n) {
  return i + 8 <= n ? load8(p + i) : load_part8(p + i, n - i, 0);
}
WT_AVX2_HOT void store_until(float* p, i64 i, i64 n, f32x8 v) {
  i + 8 <= n ? store8(p + i, v) : store_part8(p + i, v, n - i);
}

#endif
}  // namespace wt
