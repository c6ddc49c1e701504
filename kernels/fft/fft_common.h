// What the kernels of Fourier transforms share on host and device: complex numbers, roots of unity,
// rows as they lie in memory, butterflies.
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/fft/fft_side.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

template <class C>
struct alignas(2 * sizeof(C)) Complex {  // of which a GPU reads or writes both parts at once
  C re, im;
};
template <class C>
WT_HD Complex<C> operator+(Complex<C> a, Complex<C> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class C>
WT_HD Complex<C> operator-(Complex<C> a, Complex<C> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class C>
WT_HD Complex<C> operator*(Complex<C> a, Complex<C> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class C>
WT_HD Complex<C> operator*(C a, Complex<C> b) {
  return {a * b.re, a * b.im};
}
// -i a
template <class C>
WT_HD Complex<C> minus_i(Complex<C> a) {
  return {a.im, -a.re};
}
// Real and imaginary part exchanged: the inverse transform is the forward one between two of these.
template <class C>
WT_HD Complex<C> swapped(Complex<C> a) {
  return {a.im, a.re};
}

// The Taylor series of sin (Odd = 1) and cos (0) for |x| <= pi / 4, whose terms beyond the 17th and
// 16th power are below the last place. A library's functions would bring their way for any angle
// along, which takes a GPU local memory.
template <int Odd>
WT_HD double eighth_turn(double x) {
  double sum = 1;
  for (int k = 16 + Odd; k > Odd; k -= 2) sum = 1 - x * x * sum * (1.0 / (k * (k - 1)));
  return Odd ? x * sum : sum;
}
// exp(-2 pi i t / n), 0 <= t < n, to a unit in the last place or two: the angle is brought to
// the first eighth of the circle in integers, before anything is rounded.
WT_HD inline Complex<double> root_of_unity(i64 t, i64 n) {
  i64 u = 4 * t;  // a turn is 4 n
  const bool lower = u > 2 * n;
  if (lower) u = 4 * n - u;
  const bool left = u > n;
  if (left) u = 2 * n - u;
  const bool steep = 2 * u > n;
  if (steep) u = n - u;
  const double angle = 1.5707963267948966 * (double(u) / double(n));
  const double c = eighth_turn<0>(angle), s = eighth_turn<1>(angle);
  const double re = steep ? s : c, im = steep ? c : s;
  return {left ? -re : re, lower ? im : -im};
}

// One side of a transform: its rows' elements, but for where a row begins.
struct FftElements {
  i64 step;  // from one number to the next
  i64 pair;  // from a real part to its imaginary one
  i64 size;  // numbers a row
  i64 used;  // of these, what is part of the transform
  i64 n;
  bool twice;
  bool real;  // there are no imaginary parts

  // What a row's number k <= n / 2 is multiplied by.
  WT_HD int weight(i64 k) const { return twice && k > 0 && 2 * k != n ? 2 : 1; }
  template <class C, class T>
  WT_HD Complex<C> load(const T* row, i64 k) const {
    if (k >= used) return {0, 0};
    const T* const at = row + k * step;
    const C w = C(weight(k));
    return {w * C(at[0]), real ? C(0) : w * C(at[pair])};
  }
  template <class C, class T>
  WT_HD void store(T* row, i64 k, Complex<C> v) const {
    T* const at = row + k * step;
    const C w = C(weight(k));
    at[0] = T(w * v.re);
    if (!real) at[pair] = T(w * v.im);
  }
};

// A problem: rows along the axis, and both sides.
struct FftRows {
  enum { Y, X };
  Rows<2> rows;
  FftElements y, x;
};

namespace detail {
// The view without the axis of the pairs.
inline Geometry without_pairs(const View& v, FftSide side) {
  Geometry g = *v.geometry;
  if (side != FftSide::real) g.ndim = u8(g.ndim - 1);
  return g;
}
template <class Args>  // FftArgs
inline FftElements elements_of(const Args& a, const View& v, FftSide side) {
  const i64 held = side == FftSide::half ? a.n / 2 + 1 : a.n, size = v.size(a.axis);
  return {.step = v.stride(a.axis),
          .pair = side == FftSide::real ? 0 : v.stride(v.ndim() - 1),
          .size = size,
          .used = size < held ? size : held,
          .n = a.n,
          .twice = a.twice && side == FftSide::half,
          .real = side == FftSide::real};
}
}  // namespace detail
template <class Args>
inline FftRows fft_rows(const Args& a) {
  const Geometry y = detail::without_pairs(a.y, a.y_side), x = detail::without_pairs(a.x, a.x_side);
  return {rows_along<2>(a.axis, {{{a.y.data, &y}}, {{a.x.data, &x}}}),
          detail::elements_of(a, a.y, a.y_side), detail::elements_of(a, a.x, a.x_side)};
}

// --- butterflies: forward transforms of R numbers ---

template <class C>
WT_HD void butterfly(Complex<C> (&v)[2]) {
  const Complex<C> a = v[0], b = v[1];
  v[0] = a + b, v[1] = a - b;
}
template <class C>
WT_HD void butterfly(Complex<C> (&v)[3]) {
  const Complex<C> sum = v[1] + v[2], half = v[0] - C(0.5) * sum;
  const Complex<C> turned = C(0.86602540378443864676) * minus_i(v[1] - v[2]);
  v[0] = v[0] + sum, v[1] = half + turned, v[2] = half - turned;
}
template <class C>
WT_HD void butterfly(Complex<C> (&v)[4]) {
  const Complex<C> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = minus_i(v[1] - v[3]);
  v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
}
template <class C>
WT_HD void butterfly(Complex<C> (&v)[5]) {
  constexpr C kCos1 = C(0.30901699437494742410), kCos2 = C(-0.80901699437494742410),
              kSin1 = C(0.95105651629515357212), kSin2 = C(0.58778525229247312917);
  const Complex<C> a = v[1] + v[4], b = v[2] + v[3];
  const Complex<C> c = minus_i(v[1] - v[4]), d = minus_i(v[2] - v[3]);
  const Complex<C> first = v[0] + kCos1 * a + kCos2 * b, second = v[0] + kCos2 * a + kCos1 * b;
  const Complex<C> p = kSin1 * c + kSin2 * d, q = kSin2 * c - kSin1 * d;
  v[0] = v[0] + a + b, v[1] = first + p, v[4] = first - p, v[2] = second + q, v[3] = second - q;
}

// The radix of the next stage of a transform of which `rest` is left: one that has a butterfly, or
// the smallest factor there is, up to `rest` itself.
inline i64 next_radix(i64 rest) {
  constexpr i64 kFast[] = {4, 2, 3, 5};
  for (const i64 r : kFast)
    if (rest % r == 0) return r;
  for (i64 r = 7; r * r <= rest; r += 2)
    if (rest % r == 0) return r;
  return rest;
}
inline i64 largest_radix(i64 n) {
  i64 largest = 1;
  for (i64 rest = n; rest > 1;) {
    const i64 r = next_radix(rest);
    rest /= r;
    if (r > largest) largest = r;
  }
  return largest;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
