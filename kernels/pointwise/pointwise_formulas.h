// Elementwise entries: arithmetic, functions, comparisons. pointwise_entry.h says what an entry is.
#pragma once
#include "warptape/kernels/pointwise/pointwise_entry.h"

namespace wt::pw {

// --- arithmetic ---
struct Add : Kind<Domain::any, Derivative::linear, Autocast::promote> {
  static constexpr int kArity = 2;
  static constexpr bool kHot = true, kFused = false;
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return plus(a, b);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&, const auto&) {
    return gy;
  }
  template <class T>
  WT_FORMULA static T d1(T gy, const auto&, const auto&, const auto&) {
    return gy;
  }
};
struct Sub : Kind<Domain::numeric, Derivative::linear, Autocast::promote> {
  static constexpr int kArity = 2;
  static constexpr bool kHot = true, kFused = false;
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return minus(a, b);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&, const auto&) {
    return gy;
  }
  template <class T>
  WT_FORMULA static T d1(T gy, const auto&, const auto&, const auto&) {
    return -take(gy);
  }
};
struct Mul : Kind<Domain::any, Derivative::smooth, Autocast::promote> {
  static constexpr int kArity = 2, kNeeds0 = kNeedsB, kNeeds1 = kNeedsA;
  static constexpr bool kHot = true, kFused = false;
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return times(a, b);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto& b, const auto&) {
    return take(gy) * b;
  }
  template <class T>
  WT_FORMULA static T d1(T gy, const auto& a, const auto&, const auto&) {
    return take(gy) * a;
  }
};
struct Neg : Kind<Domain::numeric, Derivative::linear> {
  static constexpr int kArity = 1;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T value(T x) {
    return negative(x);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&) {
    return -take(gy);
  }
};
WT_BINARY(Div, Binary, kNeedsB, kNeedsB | kNeedsOut, a / b, gy / b, -(gy* y / b));
// d/da at b = 0 is 0 whatever a; d/db at a = 0 is 0 for b >= 0 (the limit), as in PyTorch.
struct NumericWide : Kind<Domain::floating, Derivative::smooth, Autocast::f32> {};
struct NumericBinary : Kind<Domain::numeric, Derivative::smooth, Autocast::f32> {};
WT_BINARY(Pow, Long<NumericBinary>, kNeedsA | kNeedsB, kNeedsA | kNeedsB | kNeedsOut, pow(a, b),
          where(eq(b, 0), 0, gy*(b* pow(a, b - 1))),
          gy* where(logical_and(eq(a, 0), ge(b, 0)), 0, y* log(a)));
// The derivatives of the angle of the point (b, a), b / (a^2 + b^2) and -a / (a^2 + b^2), from the
// larger of the two and the quotient, whose square neither overflows nor vanishes where it counts.
// At the origin, where there is none, they are 0.
template <class T>
WT_FORMULA T angle_slope(const T& gy, const T& a, const T& b, bool of_a) {
  const auto upright = gt(abs(a), abs(b)), origin = logical_and(eq(a, 0), eq(b, 0));
  const T far = where(origin, num<T>(1), where(upright, a, b)), q = where(upright, b, a) / far;
  const T e = gy / (far * (q * q + num<T>(1)));
  const T slope = of_a ? where(upright, q * e, e) : -where(upright, e, q * e);
  return where(origin, num<T>(0), slope);
}
// The angle itself is in (-pi, pi].
WT_BINARY(Atan2, Long<Binary>, kNeedsA | kNeedsB, kNeedsA | kNeedsB, atan2(a, b),
          angle_slope(gy, a, b, true), angle_slope(gy, a, b, false));
constexpr double kInfinite = __builtin_inf();
// log(e^a + e^b), without overflow; of equal infinities it is that infinity. The gradient of two
// -inf is 0, as logsumexp's, and that of two inf NaN.
WT_BINARY(LogAddExp, Long<NumericWide>, kNeedsA | kNeedsB, kNeedsA | kNeedsB, log_add_exp(a, b),
          gy* sigmoid(where(logical_and(eq(a, b), eq(a, -kInfinite)), num<T>(-kInfinite), a - b)),
          gy* sigmoid(where(logical_and(eq(a, b), eq(a, -kInfinite)), num<T>(-kInfinite), b - a)));
// Ties give half the gradient to each side.
struct AnyBinary : Kind<Domain::any, Derivative::piecewise, Autocast::promote> {};
WT_BINARY(Maximum, AnyBinary, kNeedsA | kNeedsB, kNeedsA | kNeedsB, maximum(a, b),
          where(lt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)),
          where(gt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)));
WT_BINARY(Minimum, AnyBinary, kNeedsA | kNeedsB, kNeedsA | kNeedsB, minimum(a, b),
          where(gt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)),
          where(lt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)));

// --- functions of one operand ---
inline constexpr double kSqrtHalf = 0.70710678118654752440;      // 1 / sqrt(2)
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

WT_UNARY(Abs, Piecewise, kNeedsA, abs(x), gy* sign(x));
WT_UNARY(Exp, Long<Wide>, kNeedsOut, exp(x), gy* y);
WT_UNARY(Expm1, Long<Wide>, kNeedsOut, expm1(x), gy*(y + num<T>(1)));
WT_UNARY(Log, Long<Wide>, kNeedsA, log(x), gy / x);
WT_UNARY(Log1p, Long<Wide>, kNeedsA, log1p(x), gy / (x + num<T>(1)));
WT_UNARY(Sqrt, Smooth, kNeedsOut, sqrt(x), gy / (num<T>(2) * y));
WT_UNARY(Rsqrt, Wide, kNeedsOut, rsqrt(x), num<T>(-0.5) * gy * y * y * y);
WT_UNARY(Sinh, Long<Wide>, kNeedsA, sinh(x), gy* cosh(x));
WT_UNARY(Tanh, Long<Smooth>, kNeedsOut, tanh(x), gy*(num<T>(1) - y * y));
WT_UNARY(Erf, Long<Wide>, kNeedsA, erf(x), gy* num<T>(kTwoOverSqrtPi) * exp(-(x * x)));
struct OfAngle : Long<Smooth> {
  static constexpr bool kAngle = true;
};
struct Tangent : Long<Wide> {
  static constexpr bool kAngle = true;
};
WT_UNARY(Sin, OfAngle, kNeedsA, sin(x), gy* cos(x));
WT_UNARY(Cos, OfAngle, kNeedsA, cos(x), -(gy* sin(x)));
WT_UNARY(Tan, Tangent, kNeedsOut, tan(x), gy*(num<T>(1) + y * y));
constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402;
WT_UNARY(Log2, Long<Wide>, kNeedsA, log2(x), gy / (x * num<T>(kLn2)));
WT_UNARY(Log10, Long<Wide>, kNeedsA, log10(x), gy / (x * num<T>(kLn10)));
WT_UNARY(Cosh, Long<Wide>, kNeedsA, cosh(x), gy* sinh(x));
// Of 1 - x^2 as a product: the difference would lose what x lacks of 1.
WT_UNARY(Acos, Long<Wide>, kNeedsA, acos(x), -(gy* rsqrt((num<T>(1) - x) * (num<T>(1) + x))));
WT_UNARY(Asin, Long<Wide>, kNeedsA, asin(x), gy* rsqrt((num<T>(1) - x) * (num<T>(1) + x)));
WT_UNARY(Atan, Long<Wide>, kNeedsA, atan(x), gy / (num<T>(1) + x * x));
// The slope of large x is 1 / x: of x^2 - 1 in two roots, and of x^2 + 1 without the square where
// adding 1 changes nothing, as the squares would overflow.
WT_UNARY(Acosh, Long<Wide>, kNeedsA, acosh(x), gy* rsqrt(x - num<T>(1)) * rsqrt(x + num<T>(1)));
WT_UNARY(Asinh, Long<Wide>, kNeedsA, asinh(x),
         gy* where(gt(abs(x), 1e15), num<T>(1) / maximum(abs(x), num<T>(1)),
                   rsqrt(x* x + num<T>(1))));
WT_UNARY(Atanh, Long<Wide>, kNeedsA, atanh(x), gy / ((num<T>(1) - x) * (num<T>(1) + x)));
struct Squares : Kind<Domain::any, Derivative::smooth, Autocast::f32> {};
WT_UNARY(Square, Squares, kNeedsA, times(x, x), gy* num<T>(2) * x);
WT_UNARY(Reciprocal, Wide, kNeedsOut, num<T>(1) / x, -(gy* y* y));
// Steps: the gradient is 0 wherever there is one.
template <Domain D>
struct Step : Kind<D, Derivative::piecewise> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsNone;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&) {
    return where(lt(gy, gy), gy, 0);  // 0, linear in gy; not gy * 0, NaN for what is not finite
  }
};
#define WT_STEP(Name, D, value_of_x) \
  struct Name : Step<Domain::D> {    \
    template <class T>               \
    WT_FORMULA static T value(T x) { \
      return value_of_x;             \
    }                                \
  }
WT_STEP(Ceil, numeric, ceil(x));
WT_STEP(Floor, numeric, floor(x));
WT_STEP(Round, numeric, round_even(x));
WT_STEP(Sign, any, sign(x));
WT_STEP(Trunc, numeric, trunc(x));
#undef WT_STEP
// a - b * floor(a / b) and a - b * trunc(a / b): with the sign of b, and of a. d/db is minus the
// quotient.
template <class Derived>
struct RemainderOf : Kind<Domain::numeric, Derivative::piecewise, Autocast::promote> {
  static constexpr int kArity = 2, kNeeds1 = kNeedsA | kNeedsB;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&, const auto&) {
    return gy;
  }
  template <class T>
  WT_FORMULA static T d1(T gy, const auto& a, const auto& b, const auto&) {
    return -(take(gy) * Derived::quotient(a, b));
  }
};
struct Remainder : RemainderOf<Remainder> {
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return floor_remainder(a, b);
  }
  static auto quotient(const auto& a, const auto& b) { return floor_divide(a, b); }
};
struct Fmod : RemainderOf<Fmod> {
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return trunc_remainder(a, b);
  }
  static auto quotient(const auto& a, const auto& b) { return div_trunc(a, b); }
};
// Whole quotients: steps, as below.
struct WholeQuotient : Kind<Domain::numeric, Derivative::piecewise, Autocast::promote> {
  static constexpr int kArity = 2;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&, const auto&) {
    return where(ne(gy, 0), 0, gy);
  }
  template <class T>
  WT_FORMULA static T d1(T gy, const auto&, const auto&, const auto&) {
    return where(ne(gy, 0), 0, gy);
  }
};
struct FloorDivide : WholeQuotient {
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return floor_quotient(a, b);
  }
};
struct DivTrunc : WholeQuotient {
  template <class T>
  WT_FORMULA static T value(T a, T b) {
    return trunc_quotient(a, b);
  }
};
// One bound. Where it is a tensor ties give half the gradient to each side, as maximum's; where it
// is a number x has it all, as clamp's. A NaN on either side is the result.
#define WT_CLAMP(Name, beyond, inside, within)                                       \
  struct Name : Kind<Domain::numeric, Derivative::piecewise, Autocast::promote> {    \
    static constexpr int kArity = 2, kNeeds0 = kNeedsA | kNeedsB, kNeeds1 = kNeeds0; \
    static constexpr bool kFused = false;                                            \
    template <class T>                                                               \
    WT_FORMULA static T value(T a, T b) {                                            \
      return beyond(a, b) || b != b ? b : a;                                         \
    }                                                                                \
    template <class T>                                                               \
    WT_FORMULA static T d0(T gy, const auto& a, const auto& b, const auto&) {        \
      if constexpr (std::is_same_v<decltype(a), decltype(b)>)                        \
        return where(beyond(a, b), 0, where(eq(a, b), gy * num<T>(0.5), gy));        \
      else                                                                           \
        return where(within(a, b), gy, 0);                                           \
    }                                                                                \
    template <class T>                                                               \
    WT_FORMULA static T d1(T gy, const auto& a, const auto& b, const auto&) {        \
      return where(inside(a, b), 0, where(eq(a, b), gy * num<T>(0.5), gy));          \
    }                                                                                \
  }
WT_CLAMP(ClampMin, lt, gt, ge);
WT_CLAMP(ClampMax, gt, lt, le);
#undef WT_CLAMP
// min(max(x, lo), hi); the gradient passes where lo <= x <= hi.
struct Clamp : Piecewise {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  double lo, hi;       // for floats
  i64 lo_int, hi_int;  // for integers
  template <class T>
  WT_FORMULA T value(T x) const {
    if constexpr (std::is_integral_v<T>) {
      const i64 v = i64(x) < lo_int ? lo_int : i64(x);
      return T(v > hi_int ? hi_int : v);
    } else {
      const T v = x < T(lo) || lo != lo ? T(lo) : x;  // a bound that is NaN is the result
      return v > T(hi) || hi != hi ? T(hi) : v;
    }
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T& x, const T&) const {
    return where(logical_and(ge(x, num<T>(lo)), le(x, num<T>(hi))), gy, 0);
  }
};

// x where it is finite; the gradient passes there.
struct NanToNum : Kind<Domain::any, Derivative::piecewise> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  double nan, posinf, neginf;
  template <class T>
  WT_FORMULA T value(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      const T v = is_infinite(x) ? (x > T(0) ? T(posinf) : T(neginf)) : x;
      return x != x ? T(nan) : v;
    }
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T& x, const T&) const {
    return where(eq(x - x, 0), gy, 0);
  }
};

// --- bits of integers; of bool the logical operations ---
template <Domain D>
struct Bits : Kind<D, Derivative::none> {
  static constexpr int kArity = 2;
};
#define WT_BITS(Name, D, value_of_ab)     \
  struct Name : Bits<Domain::D> {         \
    template <class T>                    \
    WT_FORMULA static T value(T a, T b) { \
      return value_of_ab;                 \
    }                                     \
  }
WT_BITS(BitwiseAnd, bits, T(a& b));
WT_BITS(BitwiseOr, bits, T(a | b));
WT_BITS(BitwiseXor, bits, T(a ^ b));
WT_BITS(ShiftLeft, integers, shift_left(a, b));
WT_BITS(ShiftRight, integers, shift_right(a, b));
#undef WT_BITS
struct BitwiseNot : Kind<Domain::bits, Derivative::none> {
  static constexpr int kArity = 1;
  template <class T>
  WT_FORMULA static T value(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return T(~x);
  }
};

// --- truth: bool outputs, no gradient ---
WT_BINARY_PREDICATE(Eq, a == b);
WT_BINARY_PREDICATE(Ne, a != b);
WT_BINARY_PREDICATE(Lt, a < b);
WT_BINARY_PREDICATE(Le, a <= b);
WT_BINARY_PREDICATE(Gt, a > b);
WT_BINARY_PREDICATE(Ge, a >= b);
WT_BINARY_PREDICATE(LogicalAnd, a != T(0) && b != T(0));
WT_BINARY_PREDICATE(LogicalOr, a != T(0) || b != T(0));
WT_BINARY_PREDICATE(LogicalXor, (a != T(0)) != (b != T(0)));
WT_UNARY_PREDICATE(LogicalNot, x == T(0));
WT_UNARY_PREDICATE(IsNan, x != x);
WT_UNARY_PREDICATE(IsInf, is_infinite(x));
WT_UNARY_PREDICATE(IsFinite, minus(x, x) == T(0));
// c ? a : b
struct Where : Kind<Domain::any, Derivative::linear, Autocast::promote> {
  static constexpr int kArity = 3;
  static constexpr bool kSelects = true, kFused = false;
  template <class T>
  WT_FORMULA static T value(auto c, T a, T b) {
    return c != 0 ? a : b;
  }
};

// a + w (b - a), from the nearer end, so that w = 0 and w = 1 give a and b. An infinite end is the
// result unless w is at the other one, or that one is the other infinity; ends that are further
// apart than the largest number are weighted one by one.
struct Lerp : Kind<Domain::floating, Derivative::smooth, Autocast::promote> {
  static constexpr int kArity = 3;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T value(T a, T b, T w) {
    const T d = b - a, rest = T(1) - w;
    const T near = abs(w) < T(0.5) ? a + w * d : b - d * rest;
    const T far = w == T(0) ? a : rest == T(0) ? b : a * rest + b * w;
    return is_infinite(d) ? far : d != d && a == b && w == w ? a : near;
  }
};

}  // namespace wt::pw
