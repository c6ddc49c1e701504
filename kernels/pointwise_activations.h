// Elementwise entries: activations. pointwise_entry.h says what an entry is.
#pragma once
#include "warptape/kernels/pointwise/pointwise_formulas.h"

namespace wt::pw {

// Where x is multiplied by a gate that is 0 or 1 far out, an infinite x, or a slope that overflows,
// would make NaN of a 0. These take it as far as every gate is 0 or 1 to the last bit of an f64, so
// that values and derivatives of all orders are the limits; NaN stays. Tensors of f16 are computed
// in f16, which must hold the square.
inline constexpr double kFar = 1e4, kFarHalf = 240;
template <Plain T>
WT_FORMULA T not_below(T x) {
  return x < T(-kFar) ? T(-kFar) : x;
}
template <class T>
WT_FORMULA T within(const T& x) {
  if constexpr (Plain<T>) {
    return x > T(kFar) ? T(kFar) : not_below(x);
  } else {
    const double far = x.dtype() == decltype(x.dtype())::f16 ? kFarHalf : kFar;
    return clamp(x, -far, far);
  }
}

WT_UNARY(Sigmoid, Long<Smooth>, kNeedsOut, sigmoid(x), gy*(num<T>(1) - y) * y);
// x * sigmoid(x)
WT_UNARY(Silu, Long<Smooth>, kNeedsA, not_below(x) / (num<T>(1) + exp(-x)),
         gy* sigmoid(x) * (num<T>(1) + within(x) * (num<T>(1) - sigmoid(x))));
// x * Phi(x), Phi the normal distribution: exact, by erf.
WT_UNARY(Gelu, Long<Smooth>, kNeedsA,
         num<T>(0.5) * not_below(x) * (num<T>(1) + erf(num<T>(kSqrtHalf) * x)),
         gy*(num<T>(0.5) * (num<T>(1) + erf(num<T>(kSqrtHalf) * within(x))) +
             num<T>(kInvSqrtTwoPi) * within(x) * exp(num<T>(-0.5) * within(x) * within(x))));
WT_UNARY(Softsign, Smooth, kNeedsA, where(is_infinite(x), sign(x), x / (num<T>(1) + abs(x))),
         gy / ((num<T>(1) + abs(x)) * (num<T>(1) + abs(x))));
// The gradient is 0 at 0 and passes through NaN.
struct Relu : Piecewise {
  static constexpr int kArity = 1, kNeeds0 = kNeedsOut;
  static constexpr bool kHot = true, kSignOfOutput = true;
  template <class T>
  WT_FORMULA static T value(T x) {
    return below_zero(x) ? T(0) : x;
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const T&, const T& y) {
    return where(le(y, 0), 0, gy);
  }
};
// gelu by tanh (Hendrycks and Gimpel, 2016): 0.5 x (1 + tanh(u)) = x sigmoid(2 u),
// u = sqrt(2 / pi) (x + c x^3).
struct GeluTanh : Long<Smooth> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  static constexpr double kCubic = 0.044715;
  template <class T>
  WT_FORMULA static T twice_inner(const T& x) {
    return num<T>(2 * kSqrtTwoOverPi) * (x + num<T>(kCubic) * x * x * x);
  }
  template <class T>
  WT_FORMULA static T value(T x) {
    return not_below(x) / (num<T>(1) + exp(-twice_inner(x)));
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const T& any, const T&) {
    const T x = within(any), s = sigmoid(twice_inner(x));
    const T slope = num<T>(2 * kSqrtTwoOverPi) * (num<T>(1) + num<T>(3 * kCubic) * x * x);
    return gy * (s + x * (s * (num<T>(1) - s)) * slope);
  }
};

// tanh(log(1 + e)) = n / (n + 2), n = e (e + 2), where x is one number; beyond 20 it is 1.
template <class T>
WT_FORMULA T tanh_softplus(const T& x) {
  if constexpr (Plain<T>) {
    const T e = exp(x), n = e * (e + T(2));
    return x > T(20) ? T(1) : n / (n + T(2));
  } else {
    return tanh(softplus(x));
  }
}
// x * tanh(softplus(x)) (Misra 2019, arXiv:1908.08681).
struct Mish : Long<Smooth> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  template <class T>
  WT_FORMULA static T value(T x) {
    return not_below(x) * tanh_softplus(x);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const T& any, const T&) {
    const T x = within(any);
    if constexpr (Plain<T>) {  // one exponential for both
      const T e = exp(x), n = e * (e + T(2)), t = n / (n + T(2));
      const T slope = t + x * (e / (T(1) + e)) * (T(1) - t * t);
      return gy * (x > T(20) ? T(1) : slope);
    } else {
      const T t = tanh_softplus(x);
      return gy * (t + x * sigmoid(x) * (num<T>(1) - t * t));
    }
  }
};
// x * clamp(x + 3, 0, 6) / 6 and clamp(x + 3, 0, 6) / 6 (Howard et al. 2019, arXiv:1905.02244). At
// the bends the slope is that of outside, as in PyTorch 2.15.
WT_UNARY(Hardswish, Smooth, kNeedsA,
         not_below(x) * minimum(maximum(x + num<T>(3), num<T>(0)), num<T>(6)) / num<T>(6),
         where(le(x, -3), 0, where(lt(x, 3), gy*(within(x) / num<T>(3) + num<T>(0.5)), gy)));
struct Bends : Kind<Domain::floating, Derivative::piecewise> {};
WT_UNARY(Hardsigmoid, Bends, kNeedsA,
         minimum(maximum(x + num<T>(3), num<T>(0)), num<T>(6)) / num<T>(6),
         where(logical_and(gt(x, -3), lt(x, 3)), gy / num<T>(6), 0));
// At the bends 0, as in PyTorch; the output is strictly inside where x is.
WT_UNARY(Relu6, Bends, kNeedsOut, minimum(maximum(x, num<T>(0)), num<T>(6)),
         where(logical_and(gt(y, 0), lt(y, 6)), gy, 0));
// x where it is above zero, else slope * x; slope >= 0, so that the output has the input's sign.
struct LeakyRelu : Bends {
  static constexpr int kArity = 1, kNeeds0 = kNeedsOut;
  static constexpr bool kSignOfOutput = true;
  double slope;
  template <class T>
  WT_FORMULA T value(T x) const {
    return x > T(0) ? x : x * T(slope);
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T&, const T& y) const {
    return where(gt(y, 0), gy, gy * num<T>(slope));
  }
};
// x where it is above zero, else alpha * (e^x - 1); alpha >= 0 (Clevert et al. 2015,
// arXiv:1511.07289).
struct Elu : Long<Smooth> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsOut;
  double alpha;
  template <class T>
  WT_FORMULA T value(T x) const {
    return x > T(0) ? x : expm1(x) * T(alpha);
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T&, const T& y) const {
    return where(gt(y, 0), gy, gy * (y + num<T>(alpha)));
  }
};
// log(1 + e^(beta x)) / beta; x itself where beta * x > threshold.
struct Softplus : Long<Wide> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  double beta, threshold;
  template <class T>
  WT_FORMULA T value(T x) const {
    const T t = x * T(beta);
    return t > T(threshold) ? x : log1p_exp(t) / T(beta);
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T& x, const T&) const {
    return where(gt(x * num<T>(beta), num<T>(threshold)), gy, gy * sigmoid(x * num<T>(beta)));
  }
};

}  // namespace wt::pw
