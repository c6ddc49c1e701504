// Eight floats at a time on the cpu, for `avx2` variants. Every function that uses them carries
// WT_TARGET_AVX2, and its variant asks cpu_isa().
#pragma once
#include <cmath>
#include <cstring>

#include "warptape/core/types.h"
#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

#if WT_X86
#define WT_AVX2_HOT __attribute__((target("avx2,fma,f16c"), always_inline)) inline

using f32x8 = float __attribute__((vector_size(32)));
using i32x8 = i32 __attribute__((vector_size(32)));

WT_AVX2_HOT f32x8 splat8(float v) { return f32x8{v, v, v, v, v, v, v, v}; }
WT_AVX2_HOT f32x8 load8(const float* p) {
  f32x8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
WT_AVX2_HOT void store8(float* p, f32x8 v) { std::memcpy(p, &v, sizeof v); }
// The lanes below n < 8: for the end of a row.
WT_AVX2_HOT i32x8 lanes_below8(i64 n) {
  const i32 k = i32(n);
  return i32x8{k, k, k, k, k, k, k, k} > i32x8{0, 1, 2, 3, 4, 5, 6, 7};
}
// The first n < 8 elements; the others are `pad`.
WT_AVX2_HOT f32x8 load_part8(const float* p, i64 n, float pad) {
  const i32x8 lanes = lanes_below8(n);
  return lanes ? f32x8(_mm256_maskload_ps(p, __m256i(lanes))) : splat8(pad);
}
WT_AVX2_HOT void store_part8(float* p, f32x8 v, i64 n) {
  _mm256_maskstore_ps(p, __m256i(lanes_below8(n)), __m256(v));
}
// Stream: past the caches, where what is written is not read first. p is aligned to 32 bytes then,
// and _mm_sfence() comes before anything that follows.
template <bool Stream>
WT_AVX2_HOT void put8(float* p, f32x8 v) {
  if constexpr (Stream)
    _mm256_stream_ps(p, __m256(v));
  else
    store8(p, v);
}
// Asks for a cache line that a later pass will read; any address will do.
WT_AVX2_HOT void expect8(const float* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
}
// A NaN in `b` is ignored.
WT_AVX2_HOT f32x8 max8(f32x8 a, f32x8 b) { return b > a ? b : a; }
WT_AVX2_HOT float sum_of8(f32x8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
WT_AVX2_HOT float max_of8(f32x8 v) {
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// exp for x <= 88, within 1 ulp; below -87.3 it is 0, NaN stays NaN. common/float_math.h's,
// contracted.
WT_AVX2_HOT f32x8 exp8(f32x8 x) {
  const f32x8 magic = splat8(float_math::kMagic + 127);  // the exponent's bias, too
  const f32x8 t = x * float_math::kLog2E + magic;
  const f32x8 n = t - magic;
  const f32x8 r = (x - n * float_math::kLn2High) - n * float_math::kLn2Low;
  f32x8 p;
  float_math::exp_near_0(r, p);
  i32x8 bits;
  std::memcpy(&bits, &t, sizeof bits);
  const i32x8 power_bits = bits << 23;
  f32x8 power;
  std::memcpy(&power, &power_bits, sizeof power);
  return x < -87.3f ? splat8(0) : p * power;
}
#endif

}  // namespace wt
