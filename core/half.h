// 16-bit floats as the host sees them: storage plus conversion to and from float, round to nearest
// even. Arithmetic is done in float. No STL and no CUDA header; device code uses its own types.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

namespace detail {
WT_HOT u32 float_bits(float v) { return __builtin_bit_cast(u32, v); }
WT_HOT float bits_float(u32 v) { return __builtin_bit_cast(float, v); }

// IEEE binary16 -> binary32, exact. Magic-number method: scaling by 2^112 rebuilds the exponent
// and normalises subnormals in one multiplication.
WT_HOT float half_to_float(u16 h) {
  const u32 sign = u32(h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  const float v = bits_float(rest << 13) * bits_float(0x77800000u);  // * 2^112
  return bits_float(sign | float_bits(v));
}

// binary32 -> binary16, round to nearest even; overflow gives inf, NaN stays NaN (quiet).
WT_HOT u16 float_to_half(float f) {
  const u32 bits = float_bits(f), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return u16(sign | 0x7e00u | (a >> 13 & 0x1ffu));
  if (a >= 0x477ff000u) return u16(sign | 0x7c00u);  // >= 65520 rounds to inf
  if (a < 0x38800000u) {                             // subnormal: let the adder round at 2^-24
    const float v = bits_float(a) + 0.5f;
    return u16(sign | (float_bits(v) - 0x3f000000u));
  }
  const u32 r = a + 0xfffu + (a >> 13 & 1u);
  return u16(sign | ((r - 0x38000000u) >> 13));
}

WT_HOT float bfloat_to_float(u16 b) { return bits_float(u32(b) << 16); }
WT_HOT u16 float_to_bfloat(float f) {
  const u32 bits = float_bits(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return u16(bits >> 16 | 0x40u);
  return u16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
}  // namespace detail

// IEEE binary16.
struct Half {
  u16 bits = 0;
  Half() = default;
  WT_HOT explicit Half(float v) : bits(detail::float_to_half(v)) {}
  WT_HOT explicit operator float() const { return detail::half_to_float(bits); }
};

// bfloat16: the upper half of a binary32.
struct BFloat16 {
  u16 bits = 0;
  BFloat16() = default;
  WT_HOT explicit BFloat16(float v) : bits(detail::float_to_bfloat(v)) {}
  WT_HOT explicit operator float() const { return detail::bfloat_to_float(bits); }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace wt
