// Mean and variance of floats on the cpu, for `avx2` variants.
#pragma once
#include "warptape/kernels/cpu/vector.h"

namespace wt {

#if WT_X86
// Of a row, or of a part of it: distances from the row's first element, so that an offset costs no
// bits, and the sum of the squared distances from their mean.
struct Moments {
  float mean, squares;
};
inline constexpr i64 kMomentsPart =
    2048;  // floats, which stay in the first level cache between two passes

WT_TARGET_AVX2 inline Moments moments_of_part(const float* x, i64 n, float first) {
  const i64 whole = n & ~7ll, count = n & 7;
  f32x8 s0 = splat8(0), s1 = s0, s2 = s0, s3 = s0;
  i64 i = 0;
  for (; i + 32 <= n; i += 32) {
    s0 += load8(x + i) - first, s1 += load8(x + i + 8) - first;
    s2 += load8(x + i + 16) - first, s3 += load8(x + i + 24) - first;
  }
  for (; i < whole; i += 8) s0 += load8(x + i) - first;
  s1 += load_part8(x + whole, count, first) - first;
  const float mean = sum_of8((s0 + s1) + (s2 + s3)) / float(n);
  s0 = s1 = s2 = s3 = splat8(0);  // what is left of the mean, twice; the squares, twice
  for (i = 0; i + 16 <= n; i += 16) {
    const f32x8 d = load8(x + i) - first - mean, e = load8(x + i + 8) - first - mean;
    s0 += d, s1 += e;
    s2 += d * d, s3 += e * e;
  }
  for (; i < whole; i += 8) {
    const f32x8 d = load8(x + i) - first - mean;
    s0 += d, s2 += d * d;
  }
  const f32x8 d = load_part8(x + whole, count, first) - first;
  const f32x8 e = lanes_below8(count) ? d - mean : splat8(0);
  const float rest = sum_of8((s0 + e) + s1) / float(n);
  return {mean + rest, sum_of8((s2 + e * e) + s3) - rest * rest * float(n)};
}

// The same in one pass, around a shift that is near the mean.
WT_TARGET_AVX2 inline Moments moments_around(const float* x, i64 n, float shift) {
  const i64 whole = n & ~7ll, count = n & 7;
  f32x8 s0 = splat8(0), s1 = s0, p0 = s0, p1 = s0, s2 = s0, s3 = s0, p2 = s0, p3 = s0;
  i64 i = 0;
  for (; i + 32 <= n; i += 32) {
    const f32x8 a = load8(x + i) - shift, b = load8(x + i + 8) - shift;
    const f32x8 c = load8(x + i + 16) - shift, d = load8(x + i + 24) - shift;
    s0 += a, s1 += b, s2 += c, s3 += d;
    p0 += a * a, p1 += b * b, p2 += c * c, p3 += d * d;
  }
  for (; i < whole; i += 8) {
    const f32x8 a = load8(x + i) - shift;
    s0 += a, p0 += a * a;
  }
  const f32x8 a = load_part8(x + whole, count, shift) - shift;
  const float mean = sum_of8((s0 + s1) + (s2 + s3) + a) / float(n);
  return {mean, sum_of8((p0 + p1) + (p2 + p3) + a * a) - mean * mean * float(n)};
}

// Of a long row, in parts that are joined as in Chan, Golub, LeVeque 1983. A part after the first
// needs one pass, around the mean of those before: what it loses to its own distance from there is
// small beside what that distance adds to the variance.
inline Moments moments_of(const float* x, i64 n) {
  Moments m = moments_of_part(x, n < kMomentsPart ? n : kMomentsPart, x[0]);
  for (i64 i = kMomentsPart; i < n; i += kMomentsPart) {
    const i64 count = n - i < kMomentsPart ? n - i : kMomentsPart;
    const float shift = x[0] + m.mean, share = float(count) / float(i + count);
    const Moments part = moments_around(x + i, count, shift);
    const float distance = (shift - x[0]) - m.mean + part.mean;
    m.mean += distance * share;
    m.squares += part.squares + distance * distance * share * float(i);
  }
  return m;
}

#endif

}  // namespace wt
