#include "exec/half_bits.h"

namespace emu {

double decode_float(const Format& f, u32 bits) {
  const u32 fraction = bits & ((1u << f.fraction_bits) - 1);
  const u32 exponent = bits >> f.fraction_bits & ((1u << f.exponent_bits) - 1);
  const u32 top = (1u << f.exponent_bits) - 1;
  const double sign = bits >> (f.exponent_bits + f.fraction_bits) & 1 ? -1 : 1;
  if (f.has_infinity && exponent == top) return fraction ? NAN : sign * INFINITY;
  if (!f.has_infinity && exponent == top && fraction == (1u << f.fraction_bits) - 1) return NAN;
  if (exponent == 0)
    return sign * std::ldexp(double(fraction), 1 - f.bias() - i32(f.fraction_bits));
  return sign * std::ldexp(double(fraction | 1u << f.fraction_bits),
                           i32(exponent) - f.bias() - i32(f.fraction_bits));
}

u32 encode_float(const Format& f, double x, Round round, bool finite) {
  const u32 sign = std::signbit(x) ? 1u << (f.exponent_bits + f.fraction_bits) : 0;
  const u32 top = (1u << f.exponent_bits) - 1, ones = (1u << f.fraction_bits) - 1;
  const u32 infinity = top << f.fraction_bits;
  const u32 largest = f.has_infinity ? infinity - 1 : infinity + ones - 1;
  if (x != x) return infinity | ones;  // the canonical NaN: all ones, no sign
  const double a = std::fabs(x);
  if (a == INFINITY) return sign | (finite ? largest : f.has_infinity ? infinity : infinity + ones);
  if (a == 0) return sign;
  int exponent;
  std::frexp(a, &exponent);  // a = m * 2^exponent, 0.5 <= m < 1
  exponent -= 1;
  const i32 lowest = 1 - f.bias();
  const i32 unit = (exponent < lowest ? lowest : exponent) - i32(f.fraction_bits);
  const double scaled = std::ldexp(a, -unit), whole = std::floor(scaled), rest = scaled - whole;
  u64 n = u64(whole);
  bool more = false;
  switch (round) {
    case Round::nearest:
      more = rest > 0.5 || (rest == 0.5 && n & 1);
      break;
    case Round::away:
      more = rest >= 0.5;
      break;
    case Round::zero:
      break;
    case Round::down:
      more = rest > 0 && sign;
      break;
    case Round::up:
      more = rest > 0 && !sign;
      break;
  }
  n += more;
  // Fraction and exponent lie side by side: a carry out of the fraction is the next exponent.
  const u64 biased = exponent < lowest ? n : n + (u64(exponent + f.bias() - 1) << f.fraction_bits);
  if (biased <= largest) return sign | u32(biased);
  if (finite) return sign | largest;
  const bool stays =
      round == Round::zero || (round == Round::down && !sign) || (round == Round::up && sign);
  if (stays) return sign | largest;
  return sign | (f.has_infinity ? infinity : infinity + ones);
}

}  // namespace emu
