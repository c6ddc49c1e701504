// The 8-bit floats (storage only): conversion to and from float, round to nearest even. The same
// text serves host and device. No STL and no CUDA header.
//   e4m3: 4 exponent bits (bias 7), no infinity, largest 448; beyond 464 becomes NaN
//   e5m2: the upper byte of an IEEE half; beyond 61440 becomes infinity
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::detail {

// A scaling by a power of two rebuilds the exponent and normalises subnormals.
WT_HD WT_HOT float e4m3_to_float(u8 b) {
  const u32 sign = u32(b & 0x80u) << 24, rest = b & 0x7fu;
  if (rest == 0x7fu) return __builtin_bit_cast(float, sign | 0x7fc00000u);
  const float v = __builtin_bit_cast(float, rest << 20) * 0x1p120f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(u32, v));
}
WT_HD WT_HOT float e5m2_to_float(u8 b) {
  const u32 sign = u32(b & 0x80u) << 24, rest = b & 0x7fu;
  if (rest >= 0x7cu) return __builtin_bit_cast(float, sign | 0x7f800000u | (rest & 3u) << 21);
  const float v = __builtin_bit_cast(float, rest << 21) * 0x1p112f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(u32, v));
}

// For subnormal results a float adder whose last place is theirs does the rounding.
WT_HD WT_HOT u8 float_to_e4m3(float f) {
  const u32 bits = __builtin_bit_cast(u32, f), sign = bits >> 24 & 0x80u, a = bits & 0x7fffffffu;
  if (a >= 0x43f00000u) return u8(sign | 0x7fu);  // 480, inf, NaN
  if (a < 0x3c800000u) {                          // below 2^-6
    const float v = __builtin_bit_cast(float, a) + 0x1p14f;
    return u8(sign | (__builtin_bit_cast(u32, v) - 0x46800000u));
  }
  const u32 r = a + 0x7ffffu + (a >> 20 & 1u);
  return u8(sign | ((r - 0x3c000000u) >> 20));
}
WT_HD WT_HOT u8 float_to_e5m2(float f) {
  const u32 bits = __builtin_bit_cast(u32, f), sign = bits >> 24 & 0x80u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return u8(sign | 0x7fu);
  if (a >= 0x47700000u) return u8(sign | 0x7cu);
  if (a < 0x38800000u) {  // below 2^-14
    const float v = __builtin_bit_cast(float, a) + 0x1p7f;
    return u8(sign | (__builtin_bit_cast(u32, v) - 0x43000000u));
  }
  const u32 r = a + 0xfffffu + (a >> 21 & 1u);
  return u8(sign | ((r - 0x38000000u) >> 21));
}

}  // namespace wt::detail
