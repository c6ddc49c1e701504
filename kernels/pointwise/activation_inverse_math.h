// The inverse of activations that fall to a minimum and rise from there on, by Newton's method
// between bounds. Host and device. No STL.
//
// Budget: with u half a unit in the last place of y's dtype, the slope f'(x) that a backward
// computes from the recovered x is off by at most
//   2 sqrt(u)   next to the minimum, where y - f(x0) = f'' (x - x0)^2 / 2 tells x - x0 to half the
//               digits of y: 5e-4 of f32, 2e-8 of f64, 0.04 of f16, 0.13 of bf16,
//   8 u / |f'|  elsewhere: units in the last place.
// tests/kernels/pointwise/activation_inverse_test.cpp holds all four functions to it.
#pragma once
#include "warptape/kernels/activation_inverse.h"
#include "warptape/kernels/pointwise_activations.h"

namespace wt {

// The minimum of F: where, how low, and F'' there; F'(0); and the least x that is told apart: F of
// less is no number that f32 (f64) has.
template <class F>
struct Turn;
template <>
struct Turn<pw::Silu> {
  static constexpr double kAt = turning_point(InvertedActivation::silu);
  static constexpr double kLow = -0.278464542761073795109;
  static constexpr double kBend = 0.21781170572, kSlopeAtZero = 0.5, kLeast[2] = {-110, -760};
};
template <>
struct Turn<pw::Gelu> {
  static constexpr double kAt = turning_point(InvertedActivation::gelu);
  static constexpr double kLow = -0.169971207479903661694;
  static constexpr double kBend = 0.431493992314, kSlopeAtZero = 0.5, kLeast[2] = {-15, -40};
};
template <>
struct Turn<pw::GeluTanh> {
  static constexpr double kAt = turning_point(InvertedActivation::gelu_tanh);
  static constexpr double kLow = -0.170040750571254050639;
  static constexpr double kBend = 0.430400091025, kSlopeAtZero = 0.5, kLeast[2] = {-15, -40};
};
template <>
struct Turn<pw::Mish> {
  static constexpr double kAt = turning_point(InvertedActivation::mish);
  static constexpr double kLow = -0.308843413017250406629;
  static constexpr double kBend = 0.26694791405, kSlopeAtZero = 0.6, kLeast[2] = {-110, -760};
};

// x with F(x) = y, above the minimum or not. T: float or double.
template <class F, class T>
WT_FORMULA T activation_inverse(T y, bool above) {
  using M = Turn<F>;
  constexpr bool kDouble = sizeof(T) == 8;
  constexpr T kAt = T(M::kAt), kLow = T(M::kLow), kLeast = T(M::kLeast[kDouble]);
  constexpr T kLast = kDouble ? T(0x1p-53) : T(0x1p-24);
  if (!(y < T(kDouble ? 1e300 : 1e38))) return y;  // NaN, and beyond 40 it is x itself
  const T away = pw::sqrt(T(2 / M::kBend) * (y > kLow ? y - kLow : T(0)));
  // x lies in [low, high]; F(x) <= x for x >= 0, by 0.31 at most.
  T low, high, x;
  if (above) {
    low = y > T(0) ? y : kAt;
    high = y > T(0) ? y + T(0.5) : T(0);
    const bool small = y > T(-0.05) && y < T(0.05);
    x = small ? y / T(M::kSlopeAtZero) : kAt + away;
  } else {
    low = kLeast;
    high = kAt;
    if (!(y < T(0))) return low;
    x = kAt - away;
  }
  if (!(x > low && x < high)) x = y > T(2) ? y : (low + high) * T(0.5);
  for (int turn = 0; turn < (kDouble ? 100 : 60); ++turn) {
    const T f = F::template value<T>(x), slope = F::template d0<T>(T(1), x, T(0));
    if (f == y) break;
    if ((f < y) == above)
      low = x;
    else
      high = x;
    // On the falling side f is nearly an exponential: Newton's method for its logarithm.
    const T step = above ? (f - y) / slope : pw::log(f / y) * f / slope;
    T next = x - step;
    if (!(next > low && next < high)) next = (low + high) * T(0.5);
    const T moved = next > x ? next - x : x - next;
    x = next;
    if (moved <= kLast * (x > T(0) ? x : -x)) break;
  }
  return x;
}

// call(entry of kernels/pointwise_activations.h)
template <class Call>
void with_inverted(InvertedActivation f, Call call) {
  switch (f) {
    case InvertedActivation::silu:
      return call(pw::Silu{});
    case InvertedActivation::gelu:
      return call(pw::Gelu{});
    case InvertedActivation::gelu_tanh:
      return call(pw::GeluTanh{});
    case InvertedActivation::mish:
      return call(pw::Mish{});
  }
}

}  // namespace wt
