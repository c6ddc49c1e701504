// Functions of floats for the host's elementwise kernels: no branches, no calls, no tables, so that
// a loop over them becomes vector code (g++ and clang at -O2). Every step is a float or double
// operation that IEEE 754 defines, the fused ones are written as such and compilers add none, so an
// element has the same bits in vector and in scalar code, on every machine. At most 2 units in the
// last place from the truth, right at 0, -0, infinities, NaN, subnormals and at both ends of the
// range (tests/kernels/common/float_math_test.cpp).
//
// Reductions of arguments are Cody and Waite's (Software Manual for the Elementary Functions,
// 1980); the polynomials are minimax fits of our own, by Remez' exchange, their coefficients
// rounded to float one after the other (tools/generators/fit_float_math.py).
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

#define WT_FLOAT_MATH WT_HOT
// Those that kernels use too, where CUDA's own are further than 2 units from the truth.
#define WT_FLOAT_MATH_HD WT_HD WT_HOT

namespace wt::float_math {

constexpr float kInf = __builtin_inff(), kNan = __builtin_nanf("");

WT_FLOAT_MATH_HD u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
WT_FLOAT_MATH_HD float of_bits(u32 b) { return __builtin_bit_cast(float, b); }
WT_FLOAT_MATH_HD u64 bits_of(double x) { return __builtin_bit_cast(u64, x); }
WT_FLOAT_MATH_HD double of_bits(u64 b) { return __builtin_bit_cast(double, b); }
WT_FLOAT_MATH_HD float magnitude(float x) { return of_bits(bits_of(x) & 0x7fffffffu); }
// |x| with the sign of s.
WT_FLOAT_MATH_HD float with_sign(float x, float s) {
  return of_bits((bits_of(x) & 0x7fffffffu) | (bits_of(s) & 0x80000000u));
}

#if defined(__CUDA_ARCH__)
WT_FLOAT_MATH_HD double square_root(double x) { return ::sqrt(x); }
#else
WT_FLOAT_MATH_HD double square_root(double x) { return __builtin_sqrt(x); }
#endif
// a * b + c rounded once: half the steps of a polynomial. Where the instruction set lacks it this
// is a call of libm, right but slow.
#if defined(__CUDA_ARCH__)
WT_FLOAT_MATH_HD float fused(float a, float b, float c) { return ::fmaf(a, b, c); }
WT_FLOAT_MATH_HD double fused(double a, double b, double c) { return ::fma(a, b, c); }
// a * b rounded, which no compiler may make part of a fused step.
WT_FLOAT_MATH_HD float product(float a, float b) { return ::__fmul_rn(a, b); }
WT_FLOAT_MATH_HD double product(double a, double b) { return ::__dmul_rn(a, b); }
#else
WT_FLOAT_MATH_HD float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WT_FLOAT_MATH_HD double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
WT_FLOAT_MATH_HD float product(float a, float b) { return a * b; }
WT_FLOAT_MATH_HD double product(double a, double b) { return a * b; }
#endif

// --- exponentials ---
// x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds, and leaves n in the low bits.
constexpr float kLog2E = 0x1.715476p0f, kMagic = 0x1.8p23f;
constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // n * kLn2High is exact

struct Reduced {
  float r, n;
  u32 bits;  // in the low ones: n + offset
};
template <int offset>
WT_FLOAT_MATH_HD Reduced by_ln2(float x) {
  constexpr float kRounds = kMagic + float(offset);
  const float t = fused(x, kLog2E, kRounds), n = t - kRounds;
  return {fused(n, -kLn2Low, fused(n, -kLn2High, x)), n, bits_of(t)};
}
// y = e^r for vectors of floats, contracted or not, and
template <class V>
WT_FLOAT_MATH void exp_near_0(const V& r, V& y) {
  const V s = r * r;
  y = (r * 0x1.6ac530p-10f + 0x1.123dccp-7f) * s + (r * 0x1.555858p-5f + 0x1.55548cp-3f);
  y = (y * r + 0x1.fffffcp-2f) * s;
  y = (y + r) + 1.0f;
}
WT_FLOAT_MATH_HD float exp_near_0(float r) {
  const float s = r * r;
  float y =
      fused(fused(r, 0x1.6ac530p-10f, 0x1.123dccp-7f), s, fused(r, 0x1.555858p-5f, 0x1.55548cp-3f));
  y = fused(y, r, 0x1.fffffcp-2f);
  return fused(y, s, r) + 1.0f;
}
// e^x for -87 <= x <= 88, and NaN of NaN.
WT_FLOAT_MATH float exp_moderate(float x) {
  const Reduced k = by_ln2<127>(x);
  return exp_near_0(k.r) * of_bits(k.bits << 23);
}
// 2^n in two factors: the first product is exact, so subnormal results are rounded once. What is
// out of reach is put right at the end: bounds at the beginning would have compilers work them out
// beside the rest.
WT_FLOAT_MATH float exp(float x) {
  const Reduced k = by_ln2<2 * 127>(x);
  const u32 first = (k.bits >> 1) << 23;  // 2^floor(n / 2)
  float y = exp_near_0(k.r) * of_bits(first) * of_bits((k.bits << 23) - first);
  y = x > 100.0f ? kInf : y;
  return x < -120.0f ? 0.0f : y;
}
// 2^n r + (2^n - 1) + 2^n (e^r - 1 - r), with half of 2^n so that n may be 128.
WT_FLOAT_MATH float expm1(float x) {
  const Reduced k = by_ln2<126>(x);
  const float r = k.r;
  float q = fused(fused(r, 0x1.5d2ddcp-13f, 0x1.6d47a8p-10f), r, 0x1.11491ep-7f);
  q = fused(q, r, 0x1.5554f4p-5f);
  q = fused(q, r, 0x1.55552cp-3f);
  q = fused(q, r, 0.5f);
  // Of r to its rounding.
  const float lost = fused(k.n, -kLn2Low, fused(k.n, -kLn2High, x) - r);
  const float power = of_bits(k.bits << 23);
  float y = fused(power, fused(q * r, r, lost), fused(power, r, power - 0.5f));
  y = y + y;
  y = magnitude(x) < 0x1p-25f ? x : y;
  y = x > 89.0f ? kInf : y;
  return x < -40.0f ? -1.0f : y;
}

// --- logarithms ---
constexpr float kLn2Nine = 0x1.63p-1f, kLn2Rest = -0x1.bd0106p-13f;  // e * kLn2Nine is exact
constexpr u32 kOneBits = 0x3f800000u, kSqrtHalfBits = 0x3f3504f3u;

// log(1 + f) + e ln 2 + more, with sqrt(1/2) <= 1 + f < sqrt(2).
WT_FLOAT_MATH float log_near_1(float f, float e, float more) {
  const float z = f * f;
  // In pairs (Estrin): half the depth of Horner's scheme, which is what such a loop waits for.
  const float high = fused(fused(z, 0x1.b8d48ep-5f, fused(f, -0x1.bfc4fap-4f, 0x1.efdeaap-4f)), z,
                           fused(f, -0x1.010240p-3f, 0x1.23039cp-3f));
  const float low = fused(fused(f, -0x1.552f06p-3f, 0x1.99a542p-3f), z,
                          fused(f, -0x1.000070p-2f, 0x1.555548p-2f));
  const float p = fused(high, z * z, low);
  const float rest = fused(z, -0.5f, fused(p * f, z, fused(e, kLn2Rest, more)));
  return fused(e, kLn2Nine, f + rest);
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
// log(u), u = 1 + x rounded, and what the rounding lost over u, for which 3 bits of 1 / u will do.
WT_FLOAT_MATH float log1p(float x) {
  const float u = 1.0f + x;
  const Split s = split(u);
  const float one = u - x;
  const float lost = x > 1.0f ? 1.0f - one : x - (u - 1.0f);
  const i32 e = s.e < 127 ? s.e : 127;  // 2^-127 counts as 0: there is nothing to add
  const float over_u = of_bits(u32(127 - e) << 23) * (2.0f - s.m);
  const bool near = s.e == 0;
  float y = log_near_1(near ? x : s.m - 1.0f, float(s.e), near ? 0.0f : lost * over_u);
  y = x < kInf ? y : x;
  y = x > -1.0f ? y : kNan;
  y = x == -1.0f ? -kInf : y;
  return x == 0.0f ? x : y;
}
// log(1 + e^x), of the smaller exponential: 1 + e is at most 2 then.
WT_FLOAT_MATH float log1p_exp(float x) {
  const float e = exp(-magnitude(x));
  const bool near = e < 0x1.a8279ap-2f;  // sqrt(2) - 1
  const float y = log_near_1(near ? e : fused(e, 0.5f, -0.5f), near ? 0.0f : 1.0f, 0.0f);
  return y + (x > 0.0f ? x : 0.0f);
}

// --- sinh, cosh, tanh, erf ---
// x + x s p(s) up to 1; beyond, 2 (q - 1 / (16 q)) of q = e^|x| / 4, which is finite where sinh is.
WT_FLOAT_MATH_HD float sinh(float x) {
  const float a = magnitude(x), s = a * a;
  float p = fused(s, 0x1.75a6f6p-19f, 0x1.a02156p-13f);
  p = fused(p, s, 0x1.1110e2p-7f);
  p = fused(p, s, 0x1.555556p-3f);
  const float near = fused(a * s, p, a);
  const Reduced k = by_ln2<127 - 2>(a);
  const float q = exp_near_0(k.r) * of_bits(k.bits << 23);
  float far = q - 0.0625f / q;
  far = far + far;
  far = a > 90.0f ? kInf : far;
  return with_sign(a < 1.0f ? near : far, x);
}
// 2 (q + 1 / (16 q)), with the same q.
WT_FLOAT_MATH_HD float cosh(float x) {
  const float a = magnitude(x);
  const Reduced k = by_ln2<127 - 2>(a);
  const float q = exp_near_0(k.r) * of_bits(k.bits << 23), y = q + 0.0625f / q;
  return a > 90.0f ? kInf : y + y;
}
WT_FLOAT_MATH float tanh(float x) {
  const float a = magnitude(x), s = a * a;
  float p = fused(s, -0x1.767a14p-8f, 0x1.524c44p-6f);
  p = fused(p, s, -0x1.b842c4p-5f);
  p = fused(p, s, 0x1.11075ep-3f);
  p = fused(p, s, -0x1.555534p-2f);
  const float near = fused(a * s, p, a);
  float far = 1.0f - 2.0f / (exp_moderate(a + a) + 1.0f);
  far = a > 20.0f ? 1.0f : far;
  return with_sign(a < 0.625f ? near : far, x);
}
// x + x p(x^2) up to 0.75; beyond, 1 - e^-p(|x|), p a fit of -log erfc.
WT_FLOAT_MATH float erf(float x) {
  const float a = magnitude(x), s = a * a;
  float p = fused(s, -0x1.644ed6p-11f, 0x1.4f92c6p-8f);
  p = fused(p, s, -0x1.b7b39cp-6f);
  p = fused(p, s, 0x1.ce2b32p-4f);
  p = fused(p, s, -0x1.81273ap-2f);
  p = fused(p, s, 0x1.06eba8p-3f);
  const float near = fused(a, p, a);
  float q = fused(a, 0x1.bf18220p-13f, -0x1.a4340ap-9f);  // -p(|x|)
  q = fused(q, a, 0x1.765a0cp-6f);
  q = fused(q, a, -0x1.aec16ep-4f);
  q = fused(q, a, -0x1.458d08p-1f);
  q = fused(q, a, -0x1.20e104p+0f);
  q = fused(q, a, -0x1.676076p-16f);
  float far = 1.0f - exp_moderate(q);
  far = a > 3.95f ? 1.0f : far;
  return with_sign(a < 0.75f ? near : far, x);
}

// --- the circle ---
// Of angles up to 2^16: x = n pi / 2 + r + lost, |r| <= 0.79. Beyond, and for NaN, callers ask
// libm: is_moderate() tells.
constexpr u32 kModerateBits = 0x47800000u;
// The highest bit is set where x is not moderate: a loop may gather them.
WT_FLOAT_MATH_HD u32 excess(float x) {
  return (bits_of(x) & 0x7fffffffu) + (~(1u << 31) - kModerateBits);
}
WT_FLOAT_MATH_HD bool is_moderate(float x) { return excess(x) >> 31 == 0; }
struct Angle {
  float r, lost;
  u32 quadrant;  // in the low bits
};
// Exact: `lost` is what r's rounding left; else 0, and r within a unit in the last place.
template <bool Exact>
WT_FLOAT_MATH_HD Angle by_half_pi(float x) {
  constexpr float kHigh = 0x1.921fb6p+0f, kMiddle = -0x1.777a5cp-25f, kLow = -0x1.ee59dap-50f;
  const float t = fused(x, 0x1.45f306p-1f, kMagic), n = t - kMagic;
  const float far = fused(n, -kHigh, x);  // exact: less than 1, a multiple of 2^-23
  if constexpr (Exact) {
    const float step = product(n, kMiddle), r = far - step;
    const float lost = ((far - r) - step) - fused(n, kMiddle, -step);
    return {r, fused(n, -kLow, lost), bits_of(t)};
  }
  return {fused(n, -kLow, fused(n, -kMiddle, far)), 0.0f, bits_of(t)};
}
WT_FLOAT_MATH float sine_near_0(float r) {
  const float s = r * r;
  float p = fused(s, -0x1.991c28p-13f, 0x1.1106c6p-7f);
  p = fused(p, s, -0x1.555544p-3f);
  return fused(r * s, p, r);
}
WT_FLOAT_MATH float cosine_near_0(float r) {
  const float s = r * r;
  float p = fused(s, 0x1.99e336p-16f, -0x1.6c0c1ep-10f);
  p = fused(p, s, 0x1.55554ap-5f);
  return fused(s * s, p, fused(s, -0.5f, 1.0f));
}
WT_FLOAT_MATH float sin_moderate(float x) {
  const Angle a = by_half_pi<false>(x);
  const float s = sine_near_0(a.r), c = cosine_near_0(a.r);
  const float y = of_bits(bits_of((a.quadrant & 1u) != 0 ? c : s) ^ ((a.quadrant & 2u) << 30));
  return x == 0.0f ? x : y;
}
WT_FLOAT_MATH float cos_moderate(float x) {
  const Angle a = by_half_pi<false>(x);
  const float s = sine_near_0(a.r), c = cosine_near_0(a.r);
  return of_bits(bits_of((a.quadrant & 1u) != 0 ? s : c) ^ (((a.quadrant + 1u) & 2u) << 30));
}
WT_FLOAT_MATH_HD float tan_moderate(float x) {
  const Angle a = by_half_pi<true>(x);
  const float s = a.r * a.r;
  float p = fused(s, 0.00444010695f, -0.0000370822667f);
  p = fused(p, s, 0.0109333788f);
  p = fused(p, s, 0.0212454903f);
  p = fused(p, s, 0.0540668304f);
  p = fused(p, s, 0.133326041f);
  p = fused(p, s, 0.333333514f);
  // The derivative at r is 1 + 1.6 r^2, near enough.
  const float t = a.r + fused(a.r * s, p, a.lost * fused(s, 1.6f, 1.0f));
  const float y = (a.quadrant & 1u) != 0 ? -1.0f / t : t;
  return x == 0.0f ? x : y;
}
// The angle of (x, y): of the smaller over the larger coordinate, then moved to its octant.
WT_FLOAT_MATH_HD float atan2(float y, float x) {
  const float ax = magnitude(x), ay = magnitude(y);
  const bool steep = ay > ax;
  const float large = steep ? ay : ax, small = steep ? ax : ay;
  float q = small / large;
  q = large == 0.0f ? 0.0f : q;
  q = small == kInf ? 1.0f : q;
  const float s = q * q;
  float p = fused(s, -0x1.d4b648p-10f, 0x1.650508p-7f);
  p = fused(p, s, -0x1.fe52d4p-6f);
  p = fused(p, s, 0x1.da8a18p-5f);
  p = fused(p, s, -0x1.581e94p-4f);
  p = fused(p, s, 0x1.c090a8p-4f);
  p = fused(p, s, -0x1.2420acp-3f);
  p = fused(p, s, 0x1.9991e4p-3f);
  p = fused(p, s, -0x1.55553ep-2f);
  float a = fused(q * s, p, q);
  a = steep ? 0x1.921fb6p+0f - (a + 0x1.777a5cp-25f) : a;
  a = bits_of(x) >> 31 != 0 ? 0x1.921fb6p+1f - (a + 0x1.777a5cp-24f) : a;
  a = with_sign(a, y);
  return x != x || y != y ? x + y : a;
}

// x + x s p(s), s = x^2, up to 1/2; beyond, asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
WT_FLOAT_MATH float asine_near_0(float x, float s) {
  float p = fused(s, 0x1.595c96p-5f, 0x1.8c3e26p-6f);
  p = fused(p, s, 0x1.747bbap-5f);
  p = fused(p, s, 0x1.330204p-4f);
  p = fused(p, s, 0x1.5555c8p-3f);
  return fused(x * s, p, x);
}
struct Sine {
  float angle;  // asin |x|, or asin sqrt((1 - |x|) / 2)
  bool far;     // the latter
};
WT_FLOAT_MATH Sine asine_of(float a) {
  const bool far = a > 0.5f;
  const float half = fused(a, -0.5f, 0.5f);  // exact where it counts
  const float s = far ? half : a * a;
  return {asine_near_0(far ? __builtin_sqrtf(half) : a, s), far};
}
WT_FLOAT_MATH float asin(float x) {
  const Sine k = asine_of(magnitude(x));
  const float far = fused(k.angle, -2.0f, 0x1.921fb6p+0f) - 0x1.777a5cp-25f;
  return with_sign(k.far ? far : k.angle, x);
}
WT_FLOAT_MATH float acos(float x) {
  const Sine k = asine_of(magnitude(x));
  const bool below = x < 0.0f;
  const float twice = k.angle + k.angle;
  const float far = below ? 0x1.921fb6p+1f - (twice + 0x1.777a5cp-24f) : twice;
  const float near = 0x1.921fb6p+0f - (with_sign(k.angle, x) + 0x1.777a5cp-25f);
  return k.far ? far : near;
}

// --- logarithms in double, which leave one rounding ---
struct SplitDouble {
  double m, e;  // a = 2^e m, sqrt(1/2) <= m < sqrt(2)
};
WT_FLOAT_MATH_HD SplitDouble split(double a) {  // a > 0, normal
  constexpr u64 kOne = 0x3ff0000000000000u, kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const u64 b = bits_of(a) + (kOne - kSqrtHalf);
  return {of_bits((b & 0xfffffffffffffu) + kSqrtHalf),
          of_bits((b >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0)};
}
// log2(1 + f) + e
WT_FLOAT_MATH_HD double log2_near_1(double f, double e) {
  const double z = f / (f + 2.0), s = z * z;
  // In pairs again: the chain of these two functions is longer than what a core looks ahead.
  const double s2 = s * s;
  const double high = fused(s, 0.168203133911501629, 0.181236033911085581);
  const double middle = fused(s, 0.222233728356236041, 0.285714171145551074);
  const double low = fused(s, 0.400000000523605517, 0.666666666665870508);
  const double p = fused(fused(high, s2, middle), s2, low);
  return fused(z * 1.4426950408889634074, fused(s, p, 2.0), e);
}
WT_FLOAT_MATH_HD double log2_of(double a) {
  const SplitDouble k = split(a);
  return log2_near_1(k.m - 1.0, k.e);
}
// The logarithm whose base has this one as its own. C's cases.
WT_FLOAT_MATH float log_by(float x, double factor) {
  float y = float(log2_of(double(x)) * factor);
  y = x < kInf ? y : x;
  y = x > 0.0f ? y : kNan;
  return x == 0.0f ? -kInf : y;
}
WT_FLOAT_MATH float log2(float x) { return log_by(x, 1.0); }
WT_FLOAT_MATH float log10(float x) { return log_by(x, 0.30102999566398119521); }

// log(1 + f), f >= 0: near 0 of f itself, as 1 + f is rounded.
WT_FLOAT_MATH_HD double log1p_of(double f) {
  const SplitDouble k = split(1.0 + f);
  return log2_near_1(k.e == 0.0 ? f : k.m - 1.0, k.e) * 0.69314718055994530942;
}
WT_FLOAT_MATH_HD float asinh(float x) {
  const double a = double(magnitude(x)), s = a * a;
  const float y = float(log1p_of(a + s / (1.0 + square_root(1.0 + s))));
  return magnitude(x) < kInf ? with_sign(y, x) : x;
}
WT_FLOAT_MATH_HD float acosh(float x) {
  const double t = double(x) - 1.0;
  float y = float(log1p_of(t + square_root(t * (double(x) + 1.0))));
  y = x < kInf ? y : x;
  return x >= 1.0f ? y : kNan;
}
WT_FLOAT_MATH_HD float atanh(float x) {
  const double a = double(magnitude(x));
  float y = float(0.5 * log1p_of((a + a) / (1.0 - a)));
  y = a < 1.0 ? y : a == 1.0 ? kInf : kNan;
  return with_sign(y, x);
}

// --- powers ---
// 2^(b log2 |a|) in double, which leaves one rounding. C's cases.
WT_FLOAT_MATH float exp2_of(double y) {  // |y| < 1000
  const double t = y + 0x1.8p52, r = y - (t - 0x1.8p52);
  const double s = r * r;
  const double high = fused(fused(r, 0.0000153149606556579233, 0.00015467110544598233), s,
                            fused(r, 0.00133334307160209942, 0.00961803691026329685));
  const double low = fused(r, 0.0555041096267913709, 0.2402265107585618);
  const double p = fused(fused(high, s, low), r, 0.693147180541614306);
  return float(fused(r, p, 1.0) * of_bits((bits_of(t) << 52) + 0x3ff0000000000000u));
}
WT_FLOAT_MATH float pow(float a, float b) {
  const float aa = magnitude(a);
  const double y = double(b) * log2_of(double(aa));
  float size = exp2_of(y);
  // Beyond the floats, where exp2_of goes astray, and beyond log2_of: compared as floats, which
  // are half as many vectors.
  const float about = float(y);
  size = about > 150.0f ? kInf : size;
  size = about < -160.0f ? 0.0f : size;
  float end = (aa == 0.0f) == (b < 0.0f) ? kInf : 0.0f;  // of 0 and of infinity
  end = __builtin_isunordered(aa, b) ? kNan : end;
  size = int(aa > 0.0f) & int(aa < kInf) ? size : end;
  size = aa == 1.0f ? 1.0f : size;
  const float half = b * 0.5f;
  const bool whole = __builtin_truncf(b) == b, even = __builtin_truncf(half) == half;
  const u32 sign = even ? 0u : bits_of(a) & 0x80000000u;
  const float r = of_bits(bits_of(size) | (whole ? sign : 0u));
  const float of_number = whole ? r : kNan;
  float y_of = a < 0.0f ? of_number : r;
  y_of = aa < kInf ? y_of : r;
  return b == 0.0f ? 1.0f : y_of;
}

}  // namespace wt::float_math
#undef WT_FLOAT_MATH
