// f16, bf16, tf32 and the 8-bit floats, from and to double, by their bits.
#pragma once
#include <cmath>
#include <cstring>

#include "basic.h"

namespace emu {

enum class Round : u8 { nearest, zero, down, up, away };  // away: halves go away from zero (.rna)

// A binary format of at most 32 bits: sign, exponent, fraction.
struct Format {
  u32 exponent_bits, fraction_bits;
  bool has_infinity;  // e4m3 has none: its largest exponent holds numbers, and one NaN
  constexpr i32 bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr Format kF16 = {5, 10, true}, kBf16 = {8, 7, true}, kE4m3 = {4, 3, false},
                        kE5m2 = {5, 2, true}, kTf32 = {8, 10, true};

double decode_float(const Format& f, u32 bits);
// x rounded to the format. `finite`: what is too large becomes the largest number (.satfinite).
u32 encode_float(const Format& f, double x, Round round = Round::nearest, bool finite = false);

// The sum rounded to odd: a second rounding, to fewer than 51 bits, then gives what one would have.
inline double add_to_odd(double a, double b) {
  const double s = a + b;
  const double bb = s - a, error = (a - (s - bb)) + (b - bb);
  if (error == 0 || error != error || s - s != 0) return s;
  u64 bits;
  std::memcpy(&bits, &s, 8);
  if (bits & 1) return s;
  bits = (error > 0) == (s > 0) ? bits + 1 : bits - 1;
  double odd;
  std::memcpy(&odd, &bits, 8);
  return odd;
}

inline float f16_to_float(u16 h) {
  _Float16 x;
  std::memcpy(&x, &h, 2);
  return float(x);
}
inline float bf16_to_float(u16 h) {
  const u32 bits = u32(h) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

}  // namespace emu
