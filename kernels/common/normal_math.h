// What normal numbers are made of, in double: the logarithm, sine and cosine of a part of a turn,
// and quantiles of the normal distribution. Like common/float_math.h's functions these have no
// branches, calls or tables, every step is one that IEEE 754 defines, so a number has the same bits
// on every machine, in vector code and on a GPU. A few units in the last place from the truth
// (tests/kernels/common/normal_math_test.cpp); polynomials by tools/generators/fit_float_math.py.
#pragma once
#include "warptape/kernels/common/float_math.h"

namespace wt::normal_math {

using float_math::bits_of;
using float_math::fused;
using float_math::of_bits;

// For whole numbers below 2^52: in the low bits of this double lies n of 2^52 + n.
constexpr double kWhole = 0x1p52;
constexpr u64 kWholeBits = 0x4330000000000000u;

#if defined(__CUDA_ARCH__)
WT_HD WT_HOT double square_root(double x) { return ::__dsqrt_rn(x); }
#else
WT_HD WT_HOT double square_root(double x) { return __builtin_sqrt(x); }
#endif

// uniform53() of the two words of a pair, the first in the low half. Instruction sets below AVX-512
// cannot convert 64-bit integers.
WT_HD WT_HOT double uniform53_of_pair(u64 pair) {
  const double first = of_bits((pair & 0xffffffffu) | kWholeBits) - kWhole;
  const double rest = of_bits((pair >> 43) | kWholeBits) - kWhole;
  return fused(first, 0x1p-32, rest * 0x1p-53);
}

// For positive normal x; finite for 0. x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), and
// log(1 + f) = 2 atanh(f / (2 + f)).
WT_HD WT_HOT double log(double x) {
  constexpr u64 kOne = 0x3ff0000000000000u, kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const u64 b = bits_of(x) + (kOne - kSqrtHalf);
  const double f = of_bits((b & 0xfffffffffffffu) + kSqrtHalf) - 1.0;
  const double e = of_bits((b >> 52) | kWholeBits) - (kWhole + 1023.0);
  const double z = f / (f + 2.0), s = z * z, s2 = s * s;
  // In pairs (Estrin): half the depth of Horner's scheme.
  const double high =
      fused(s2, 0.147964421754693731, fused(s, 0.15314004055003013, 0.18183566031752237));
  const double middle = fused(s, 0.222221985426425301, 0.285714287426615029);
  const double low = fused(s, 0.399999999994135627, 0.666666666666673456);
  const double p = fused(fused(high, s2, middle), s2, low);
  // ln 2 in two parts, the first of so few bits that its product with e is exact.
  constexpr double kLn2 = 0x1.62e42fee00000p-1, kLn2Rest = 0x1.a39ef35793c76p-33;
  return fused(e, kLn2, fused(z * s, p, fused(e, kLn2Rest, z + z)));
}

struct Point {
  double cosine, sine;
};
// Of the angle 2 pi t, 0 <= t <= 1. t = quarters / 4 + r, exact, and |r| <= 1/8.
WT_HD WT_HOT Point on_circle(double t) {
  constexpr double kTurn = 0x1.921fb54442d18p+2;
  const double shifted = fused(t, 4.0, 0x1.8p52), quarters = shifted - 0x1.8p52;
  const u64 quadrant = bits_of(shifted);
  const double r = fused(quarters, -0.25, t), s = r * r, s2 = s * s;
  double p = fused(s, 3.78136638872923455, -15.093829321762184);
  p = fused(p, s2, fused(s, 42.0586855067368938, -76.7058597087845424));
  p = fused(p, s2, fused(s, 81.6052492759682272, -41.3417022403996744));
  const double sine = fused(r * s, p, r * kTurn);
  double q = fused(s2, -1.69702007871785329, fused(s, 7.90310163791509117, -26.4262511404276968));
  q = fused(q, s2, fused(s, 60.2446413316116592, -85.4568172065400519));
  q = fused(q, s2, fused(s, 64.9393940226680134, -19.7392088021787171));
  const double cosine = fused(s, q, 1.0);
  const bool odd = (quadrant & 1u) != 0;
  return {of_bits(bits_of(odd ? sine : cosine) ^ (((quadrant + 1u) & 2u) << 62)),
          of_bits(bits_of(odd ? cosine : sine) ^ ((quadrant & 2u) << 62))};
}

// A point of the normal distribution in two dimensions from two uniform numbers of [0, 1) (Box and
// Muller, 1958).
WT_HD WT_HOT Point normal_pair(double u, double v) {
  const double radius = square_root(-2.0 * log(1.0 - u));
  const Point p = on_circle(v);
  return {radius * p.cosine, radius * p.sine};
}

// The x below which a normal number lies with probability p, for normal p < 1; some -37.6 for less,
// 8.3 for 1. Wichura's PPND16 (algorithm AS 241, Applied Statistics 37, 1988). Quotients of
// polynomials, of 0.180625 - (p - 1/2)^2 in the middle and of sqrt(-log p) in the tails, where the
// last piece begins at e^-25.
WT_HD WT_HOT double normal_quantile(double p) {
  const double off = p - 0.5, side = p < 0.5 ? -1.0 : 1.0;
  const bool middle = off * side <= 0.425;
  // Beyond 1/2 a number nearer to 1 cannot be told from it.
  const double upper = 1.0 - p < 0x1p-54 ? 0x1p-54 : 1.0 - p;
  const double root = square_root(-log(p < 0.5 ? p : upper));
  const bool far = root > 5.0;
  const double r = middle ? fused(-off, off, 0.180625) : root - (far ? 5.0 : 1.6);
  const auto pick = [=](double a, double b, double c) WT_INLINE_LAMBDA {
    const double tail = far ? c : b;
    return middle ? a : tail;
  };
  double up = pick(2509.0809287301227, 0.0007745450142783414, 2.0103343992922881e-07);
  up = fused(up, r, pick(33430.57558358813, 0.022723844989269184, 2.7115555687434876e-05));
  up = fused(up, r, pick(67265.7709270087, 0.2417807251774506, 0.0012426609473880784));
  up = fused(up, r, pick(45921.95393154987, 1.2704582524523684, 0.026532189526576124));
  up = fused(up, r, pick(13731.69376550946, 3.6478483247632045, 0.29656057182850487));
  up = fused(up, r, pick(1971.5909503065513, 5.769497221460691, 1.7848265399172913));
  up = fused(up, r, pick(133.14166789178438, 4.630337846156546, 5.463784911164114));
  up = fused(up, r, pick(3.3871328727963665, 1.4234371107496835, 6.657904643501103));
  double down = pick(5226.495278852854, 1.0507500716444169e-09, 2.0442631033899397e-15);
  down = fused(down, r, pick(28729.085735721943, 0.0005475938084995345, 1.421511758316446e-07));
  down = fused(down, r, pick(39307.89580009271, 0.015198666563616457, 1.8463183175100548e-05));
  down = fused(down, r, pick(21213.794301586597, 0.14810397642748008, 0.0007868691311456133));
  down = fused(down, r, pick(5394.196021424751, 0.6897673349851, 0.014875361290850615));
  down = fused(down, r, pick(687.1870074920579, 1.6763848301838038, 0.1369298809227358));
  down = fused(down, r, pick(42.31333070160091, 2.053191626637759, 0.599832206555888));
  down = fused(down, r, 1.0);
  return (middle ? off : side) * (up / down);
}

}  // namespace wt::normal_math
