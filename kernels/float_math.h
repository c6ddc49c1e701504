// Functions of floats for the host's elementwise kernels: no branches, no calls, no tables, so that
// a loop over them becomes vector code (g++ and clang at -O2). Every step is a float or double
// operation that IEEE 754 defines and none is contracted, so an element has the same bits in vector
// and in scalar code, on every machine. At most 2 units in the last place from the truth, right at
// 0, -0, infinities, NaN, subnormals and at both ends of the range
// (tests/kernels/float_math_test.cpp).
//
// Reductions of arguments are Cody and Waite's (Software Manual for the Elementary Functions,
// 1980); the polynomials are minimax fits of our own, by Remez' exchange, their coefficients
// rounded to float one after the other (tools/fit_float_math.py).
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

#define WT_FLOAT_MATH WT_HOT

namespace wt::float_math {

constexpr float kInf = __builtin_inff(), kNan = __builtin_nanf("");

WT_FLOAT_MATH u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
WT_FLOAT_MATH float of_bits(u32 b) { return __builtin_bit_cast(float, b); }
WT_FLOAT_MATH u64 bits_of(double x) { return __builtin_bit_cast(u64, x); }
WT_FLOAT_MATH double of_bits(u64 b) { return __builtin_bit_cast(double, b); }
WT_FLOAT_MATH float magnitude(float x) { return of_bits(bits_of(x) & 0x7fffffffu); }
// |x| with the sign of s.
WT_FLOAT_MATH float with_sign(float x, float s) {
  return of_bits((bits_of(x) & 0x7fffffffu) | (bits_of(s) & 0x80000000u));
}

// --- exponentials --------------------------------------------------------------------------------
// x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds, and leaves n in the low bits.
constexpr float kLog2E = 0x1.715476p0f, kMagic = 0x1.8p23f;
constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // n * kLn2High is exact
constexpr u32 kMagicBits = 0x4b400000u, kOneBits = 0x3f800000u;

struct Reduced {
  float r, n;
  u32 bits;  // kMagicBits + n
};
WT_FLOAT_MATH Reduced by_ln2(float x) {
  const float t = x * kLog2E + kMagic, n = t - kMagic;
  return {(x - n * kLn2High) - n * kLn2Low, n, bits_of(t)};
}
// y = e^r, for floats and for vectors of them.
template <class V>
WT_FLOAT_MATH void exp_near_0(const V& r, V& y) {
  const V s = r * r;
  y = (r * 0x1.6ac530p-10f + 0x1.123dccp-7f) * s + (r * 0x1.555858p-5f + 0x1.55548cp-3f);
  y = (y * r + 0x1.fffffcp-2f) * s;
  y = (y + r) + 1.0f;
}
WT_FLOAT_MATH float exp_near_0(float r) {
  float y;
  exp_near_0(r, y);
  return y;
}
// e^x for -87 <= x <= 88.
WT_FLOAT_MATH float exp_moderate(float x) {
  const Reduced k = by_ln2(x);
  return exp_near_0(k.r) * of_bits((k.bits << 23) + kOneBits);
}
// 2^n in two factors: the first product is exact, so subnormal results are rounded once.
WT_FLOAT_MATH float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const Reduced k = by_ln2(x);
  const i32 n = i32(k.bits - kMagicBits), half = n >> 1;
  const float first = of_bits(u32(half + 127) << 23);
  const float second = of_bits(u32(n - half + 127) << 23);
  return exp_near_0(k.r) * first * second;
}
// 2^n r + (2^n - 1) + 2^n (e^r - 1 - r), with half of 2^n so that n may be 128.
WT_FLOAT_MATH float expm1(float v) {
  float x = v > 89.0f ? 89.0f : v;
  x = x < -20.0f ? -20.0f : x;
  const Reduced k = by_ln2(x);
  const float r = k.r;
  float q = 0x1.5d2ddcp-13f;
  q = q * r + 0x1.6d47a8p-10f;
  q = q * r + 0x1.11491ep-7f;
  q = q * r + 0x1.5554f4p-5f;
  q = q * r + 0x1.55552cp-3f;
  q = q * r + 0.5f;
  const float high = x - k.n * kLn2High;
  const float lost = (high - r) - k.n * kLn2Low;  // of r to its rounding
  const float power = of_bits((k.bits << 23) + (kOneBits - 0x00800000u));
  const float y = (power * r + (power - 0.5f)) + power * (q * r * r + lost);
  return magnitude(v) < 0x1p-25f ? v : y + y;
}

// --- logarithms ----------------------------------------------------------------------------------
constexpr float kLn2Nine = 0x1.63p-1f, kLn2Rest = -0x1.bd0106p-13f;  // e * kLn2Nine is exact
constexpr u32 kSqrtHalfBits = 0x3f3504f3u;

// log(1 + f) + e ln 2 + more, with sqrt(1/2) <= 1 + f < sqrt(2).
WT_FLOAT_MATH float log_near_1(float f, float e, float more) {
  const float z = f * f;
  // In pairs (Estrin): half the depth of Horner's scheme, which is what such a loop waits for.
  const float high = (0x1.b8d48ep-5f * z + (0x1.efdeaap-4f - 0x1.bfc4fap-4f * f)) * z +
                     (0x1.23039cp-3f - 0x1.010240p-3f * f);
  const float low =
      (0x1.99a542p-3f - 0x1.552f06p-3f * f) * z + (0x1.555548p-2f - 0x1.000070p-2f * f);
  const float p = high * (z * z) + low;
  const float rest = ((p * f) * z + (e * kLn2Rest + more)) - 0.5f * z;
  return (f + rest) + e * kLn2Nine;
}
// x = 2^e m with sqrt(1/2) <= m < sqrt(2), for positive normal x.
struct Split {
  float m;
  i32 e;
};
WT_FLOAT_MATH Split split(float x) {
  const u32 b = bits_of(x) + (kOneBits - kSqrtHalfBits);
  return {of_bits((b & 0x7fffffu) + kSqrtHalfBits), i32(b >> 23) - 127};
}
WT_FLOAT_MATH float log(float x) {
  const bool small = x < 0x1p-126f;
  const Split s = split(small ? x * 0x1p23f : x);
  const float e = float(s.e) - (small ? 23.0f : 0.0f);
  float y = log_near_1(s.m - 1.0f, e, 0.0f);
  y = x < kInf ? y : x;
  y = x > 0.0f ? y : kNan;
  return x == 0.0f ? -kInf : y;
}
// log(u), u = 1 + x rounded, and what the rounding lost over u.
WT_FLOAT_MATH float log1p(float x) {
  const float u = 1.0f + x;
  const Split s = split(u);
  const float lost = (x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f)) / u;
  const bool near = s.e == 0;
  float y = log_near_1(near ? x : s.m - 1.0f, float(s.e), near ? 0.0f : lost);
  y = x < kInf ? y : x;
  y = x > -1.0f ? y : kNan;
  y = x == -1.0f ? -kInf : y;
  return x == 0.0f ? x : y;
}

// --- tanh, erf -----------------------------------------------------------------------------------
WT_FLOAT_MATH float tanh(float x) {
  const float a = magnitude(x), s = a * a;
  float p = -0x1.767a14p-8f;
  p = p * s + 0x1.524c44p-6f;
  p = p * s - 0x1.b842c4p-5f;
  p = p * s + 0x1.11075ep-3f;
  p = p * s - 0x1.555534p-2f;
  const float near = a + a * s * p;
  const float t = a > 20.0f ? 20.0f : a;
  const float far = 1.0f - 2.0f / (exp_moderate(t + t) + 1.0f);
  return with_sign(a < 0.625f ? near : far, x);
}
// x + x p(x^2) up to 0.75; beyond, 1 - e^-p(|x|), p a fit of -log erfc.
WT_FLOAT_MATH float erf(float x) {
  const float a = magnitude(x), s = a * a;
  float p = -0x1.644ed6p-11f;
  p = p * s + 0x1.4f92c6p-8f;
  p = p * s - 0x1.b7b39cp-6f;
  p = p * s + 0x1.ce2b32p-4f;
  p = p * s - 0x1.81273ap-2f;
  p = p * s + 0x1.06eba8p-3f;
  const float near = a + a * p;
  const float t = a > 3.95f ? 3.95f : a;
  float q = -0x1.bf18220p-13f;
  q = q * t + 0x1.a4340ap-9f;
  q = q * t - 0x1.765a0cp-6f;
  q = q * t + 0x1.aec16ep-4f;
  q = q * t + 0x1.458d08p-1f;
  q = q * t + 0x1.20e104p+0f;
  q = q * t + 0x1.676076p-16f;
  const float far = 1.0f - exp_moderate(-q);
  return with_sign(a < 0.75f ? near : far, x);
}

// --- the circle ----------------------------------------------------------------------------------
// Of angles up to 2^16: x = n pi / 2 + r, |r| <= 0.79, in double. Beyond, and for NaN, callers ask
// libm: is_moderate() tells.
constexpr float kModerate = 0x1p16f;
WT_FLOAT_MATH bool is_moderate(float x) {
  return (bits_of(x) & 0x7fffffffu) <= __builtin_bit_cast(u32, kModerate);
}
struct Angle {
  double r;
  u32 quadrant;  // in the low bits
};
WT_FLOAT_MATH Angle by_half_pi(float x) {
  const float t = x * 0x1.45f306p-1f + kMagic;
  const double n = double(t - kMagic);
  // 36 bits, so that the first product is exact, and the next 53.
  return {(double(x) - n * 0x1.921fb5444p+0) - n * 0x1.68c234c4c6629p-39, bits_of(t)};
}
WT_FLOAT_MATH float sine_near_0(float r) {
  const float s = r * r;
  float p = -0x1.991c28p-13f;
  p = p * s + 0x1.1106c6p-7f;
  p = p * s - 0x1.555544p-3f;
  return r + r * s * p;
}
WT_FLOAT_MATH float cosine_near_0(float r) {
  const float s = r * r;
  float p = 0x1.99e336p-16f;
  p = p * s - 0x1.6c0c1ep-10f;
  p = p * s + 0x1.55554ap-5f;
  return (1.0f - 0.5f * s) + s * s * p;
}
WT_FLOAT_MATH float sin_moderate(float x) {
  const Angle a = by_half_pi(x);
  const float r = float(a.r), s = sine_near_0(r), c = cosine_near_0(r);
  const float y = of_bits(bits_of((a.quadrant & 1u) != 0 ? c : s) ^ ((a.quadrant & 2u) << 30));
  return x == 0.0f ? x : y;
}
WT_FLOAT_MATH float cos_moderate(float x) {
  const Angle a = by_half_pi(x);
  const float r = float(a.r), s = sine_near_0(r), c = cosine_near_0(r);
  return of_bits(bits_of((a.quadrant & 1u) != 0 ? s : c) ^ (((a.quadrant + 1u) & 2u) << 30));
}
WT_FLOAT_MATH float tan_moderate(float x) {
  const Angle a = by_half_pi(x);
  const double s = a.r * a.r;
  double p = 0.00444010695320973499;
  p = p * s - 0.0000370822666922441108;
  p = p * s + 0.0109333787454591205;
  p = p * s + 0.0212454902509142966;
  p = p * s + 0.0540668303885753272;
  p = p * s + 0.133326041240982473;
  p = p * s + 0.333333514198567435;
  const float t = float(a.r + a.r * s * p);
  const float y = (a.quadrant & 1u) != 0 ? -1.0f / t : t;
  return x == 0.0f ? x : y;
}
// The angle of (x, y): of the smaller over the larger coordinate, then moved to its octant.
WT_FLOAT_MATH float atan2(float y, float x) {
  const float ax = magnitude(x), ay = magnitude(y);
  const bool steep = ay > ax;
  const float large = steep ? ay : ax, small = steep ? ax : ay;
  float q = small / large;
  q = large == 0.0f ? 0.0f : q;
  q = small == kInf ? 1.0f : q;
  const float s = q * q;
  float p = -0x1.d4b648p-10f;
  p = p * s + 0x1.650508p-7f;
  p = p * s - 0x1.fe52d4p-6f;
  p = p * s + 0x1.da8a18p-5f;
  p = p * s - 0x1.581e94p-4f;
  p = p * s + 0x1.c090a8p-4f;
  p = p * s - 0x1.2420acp-3f;
  p = p * s + 0x1.9991e4p-3f;
  p = p * s - 0x1.55553ep-2f;
  float a = q + q * s * p;
  a = steep ? 0x1.921fb6p+0f - (a + 0x1.777a5cp-25f) : a;
  a = bits_of(x) >> 31 != 0 ? 0x1.921fb6p+1f - (a + 0x1.777a5cp-24f) : a;
  a = with_sign(a, y);
  return x != x || y != y ? x + y : a;
}

// --- powers --------------------------------------------------------------------------------------
// 2^(b log2 |a|) in double, which leaves one rounding. C's cases.
WT_FLOAT_MATH double log2_of(double a) {  // a > 0, normal
  constexpr u64 kOne = 0x3ff0000000000000u, kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const u64 b = bits_of(a) + (kOne - kSqrtHalf);
  const double f = of_bits((b & 0xfffffffffffffu) + kSqrtHalf) - 1.0;
  const double e = of_bits((b >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double z = f / (f + 2.0), s = z * z;
  double p = 0.168203133911501629;
  p = p * s + 0.181236033911085581;
  p = p * s + 0.222233728356236041;
  p = p * s + 0.285714171145551074;
  p = p * s + 0.400000000523605517;
  p = p * s + 0.666666666665870508;
  return e + z * (2.0 + s * p) * 1.4426950408889634074;
}
WT_FLOAT_MATH float exp2_of(double y) {
  y = y > 160.0 ? 160.0 : y;
  y = y < -160.0 ? -160.0 : y;
  const double t = y + 0x1.8p52, r = y - (t - 0x1.8p52);
  double p = 0.0000153149606556579233;
  p = p * r + 0.00015467110544598233;
  p = p * r + 0.00133334307160209942;
  p = p * r + 0.00961803691026329685;
  p = p * r + 0.0555041096267913709;
  p = p * r + 0.2402265107585618;
  p = p * r + 0.693147180541614306;
  return float((1.0 + r * p) * of_bits((bits_of(t) << 52) + 0x3ff0000000000000u));
}
WT_FLOAT_MATH float pow(float a, float b) {
  const float aa = magnitude(a), ab = magnitude(b);
  double l = log2_of(double(aa));
  l = aa < kInf ? l : double(aa);
  l = aa == 0.0f ? double(-kInf) : l;
  const double y = l == 0.0 ? 0.0 : double(b) * l;
  const float size = exp2_of(y);
  // With 2^23 added the last bit of a number is its ones digit.
  const float digits = ab < 0x1p23f ? ab + 0x1p23f : ab;
  const float whole = ab < 0x1p23f ? digits - 0x1p23f : ab;  // b's magnitude if b is whole
  u32 odd = whole == ab ? bits_of(digits) << 31 : 0u;
  odd = ab < 0x1p24f ? odd : 0u;
  float r = of_bits(bits_of(size) | (odd & bits_of(a)));
  float of_negative = whole == ab ? r : kNan;
  of_negative = a > -kInf ? of_negative : r;
  r = a < 0.0f ? of_negative : r;
  return b == 0.0f ? 1.0f : r;
}

}  // namespace wt::float_math
#undef WT_FLOAT_MATH
