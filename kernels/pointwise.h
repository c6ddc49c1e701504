// Elementwise operators: THE LIST, their formulas and their derivatives.
//
// An entry is a struct with the value and one derivative an operand, written once as templates:
// with float or double they are the forward and the fused backward kernel on all three devices;
// with Tensor the derivative is a chain of differentiable operators, which is what create_graph
// needs. 16-bit types compute in float, integers in their own type. No STL: device code includes
// this.
//
// Add an operator: its struct (one line for most), one line in a list below, one row in
// tests/op_cases. Declaration, definition, contracts, kernels and both derivatives follow.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {

// What an entry's derivatives read beside the gradient of the output.
enum PointwiseNeeds : int { kNeedsNone = 0, kNeedsA = 1, kNeedsB = 2, kNeedsOut = 4 };

namespace pw {

// The dtypes of the operands. floating: integers and bool are converted to the default dtype;
// numeric: not bool.
enum class Domain : u8 { floating, numeric, any };

// The facts of an entry beside its formulas.
template <Domain D, Derivative V, Autocast A = Autocast::none>
struct Kind {
  static constexpr Domain kDomain = D;
  static constexpr Derivative kDerivative = V;
  static constexpr Autocast kAutocast = A;
  static constexpr bool kPredicate = false;  // the output is bool
  static constexpr bool kSelects = false;    // operand 0 is bool
  static constexpr bool kHot = false;        // the operator is inlined whole: for the tape's gates
  // The derivatives have kernels of their own. False: each is a differentiable operator or two, and
  // an operand may be a Scalar there.
  static constexpr bool kFused = true;
  static constexpr int kNeeds0 = kNeedsNone, kNeeds1 = kNeedsNone;
};
using Smooth = Kind<Domain::floating, Derivative::smooth>;
using Wide = Kind<Domain::floating, Derivative::smooth, Autocast::f32>;  // loses much in 16 bits
using Binary = Kind<Domain::floating, Derivative::smooth, Autocast::promote>;
using Piecewise = Kind<Domain::numeric, Derivative::piecewise>;
struct Predicate : Kind<Domain::any, Derivative::none, Autocast::promote> {
  static constexpr bool kPredicate = true;
};

// The value sees x (or a, b); the derivative also gy, the gradient of the output, and y, the
// output, as far as `needs` says.
#define WT_UNARY(Name, kind, needs, value_of_x, gradient)                                    \
  struct Name : kind {                                                                       \
    static constexpr int kArity = 1, kNeeds0 = needs;                                        \
    template <class T>                                                                       \
    WT_FORMULA static T value(T x) {                                                         \
      return value_of_x;                                                                     \
    }                                                                                        \
    template <class T>                                                                       \
    WT_FORMULA static T d0(T gy, [[maybe_unused]] const T& x, [[maybe_unused]] const T& y) { \
      return gradient;                                                                       \
    }                                                                                        \
  }
#define WT_BINARY(Name, kind, needs0, needs1, value_of_ab, gradient0, gradient1)           \
  struct Name : kind {                                                                     \
    static constexpr int kArity = 2, kNeeds0 = needs0, kNeeds1 = needs1;                   \
    template <class T>                                                                     \
    WT_FORMULA static T value(T a, T b) {                                                  \
      return value_of_ab;                                                                  \
    }                                                                                      \
    template <class T>                                                                     \
    WT_FORMULA static T d0(T gy, [[maybe_unused]] const T& a, [[maybe_unused]] const T& b, \
                           [[maybe_unused]] const T& y) {                                  \
      return gradient0;                                                                    \
    }                                                                                      \
    template <class T>                                                                     \
    WT_FORMULA static T d1(T gy, [[maybe_unused]] const T& a, [[maybe_unused]] const T& b, \
                           [[maybe_unused]] const T& y) {                                  \
      return gradient1;                                                                    \
    }                                                                                      \
  }
#define WT_UNARY_PREDICATE(Name, value_of_x) \
  struct Name : Predicate {                  \
    static constexpr int kArity = 1;         \
    template <class T>                       \
    WT_FORMULA static bool value(T x) {      \
      return value_of_x;                     \
    }                                        \
  }
#define WT_BINARY_PREDICATE(Name, value_of_ab) \
  struct Name : Predicate {                    \
    static constexpr int kArity = 2;           \
    template <class T>                         \
    WT_FORMULA static bool value(T a, T b) {   \
      return value_of_ab;                      \
    }                                          \
  }

// --- arithmetic ----------------------------------------------------------------------------------
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
struct NumericBinary : Kind<Domain::numeric, Derivative::smooth, Autocast::f32> {};
WT_BINARY(Pow, NumericBinary, kNeedsA | kNeedsB, kNeedsA | kNeedsB | kNeedsOut, pow(a, b),
          where(eq(b, 0), 0, gy*(b* pow(a, b - 1))),
          gy* where(logical_and(eq(a, 0), ge(b, 0)), 0, y* log(a)));
// Ties give half the gradient to each side.
struct AnyBinary : Kind<Domain::any, Derivative::piecewise, Autocast::promote> {};
WT_BINARY(Maximum, AnyBinary, kNeedsA | kNeedsB, kNeedsA | kNeedsB, maximum(a, b),
          where(lt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)),
          where(gt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)));
WT_BINARY(Minimum, AnyBinary, kNeedsA | kNeedsB, kNeedsA | kNeedsB, minimum(a, b),
          where(gt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)),
          where(lt(a, b), 0, where(eq(a, b), gy* num<T>(0.5), gy)));

// --- functions of one operand ------------------------------------------------------------------
inline constexpr double kSqrtHalf = 0.70710678118654752440;      // 1 / sqrt(2)
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

WT_UNARY(Abs, Piecewise, kNeedsA, abs(x), gy* sign(x));
WT_UNARY(Exp, Wide, kNeedsOut, exp(x), gy* y);
WT_UNARY(Log, Wide, kNeedsA, log(x), gy / x);
WT_UNARY(Sqrt, Smooth, kNeedsOut, sqrt(x), gy / (num<T>(2) * y));
WT_UNARY(Rsqrt, Wide, kNeedsOut, rsqrt(x), num<T>(-0.5) * gy * y * y * y);
WT_UNARY(Tanh, Smooth, kNeedsOut, tanh(x), gy*(num<T>(1) - y * y));
WT_UNARY(Sigmoid, Smooth, kNeedsOut, sigmoid(x), gy*(num<T>(1) - y) * y);
WT_UNARY(Erf, Wide, kNeedsA, erf(x), gy* num<T>(kTwoOverSqrtPi) * exp(-(x * x)));
WT_UNARY(Sin, Smooth, kNeedsA, sin(x), gy* cos(x));
WT_UNARY(Cos, Smooth, kNeedsA, cos(x), -(gy* sin(x)));
struct Squares : Kind<Domain::any, Derivative::smooth, Autocast::f32> {};
WT_UNARY(Square, Squares, kNeedsA, times(x, x), gy* num<T>(2) * x);
WT_UNARY(Reciprocal, Wide, kNeedsOut, num<T>(1) / x, -(gy* y* y));
// x * sigmoid(x)
WT_UNARY(Silu, Smooth, kNeedsA, x / (num<T>(1) + exp(-x)),
         gy* sigmoid(x) * (num<T>(1) + x * (num<T>(1) - sigmoid(x))));
// x * Phi(x), Phi the normal distribution: exact, by erf.
WT_UNARY(Gelu, Smooth, kNeedsA, num<T>(0.5) * x * (num<T>(1) + erf(num<T>(kSqrtHalf) * x)),
         gy*(num<T>(0.5) * (num<T>(1) + erf(num<T>(kSqrtHalf) * x)) +
             num<T>(kInvSqrtTwoPi) * x * exp(num<T>(-0.5) * x * x)));
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
// gelu by tanh (Hendrycks and Gimpel, 2016): 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + c x^3).
struct GeluTanh : Smooth {
  static constexpr int kArity = 1, kNeeds0 = kNeedsA;
  static constexpr double kCubic = 0.044715;
  template <class T>
  WT_FORMULA static T inner(const T& x) {
    return num<T>(kSqrtTwoOverPi) * (x + num<T>(kCubic) * x * x * x);
  }
  template <class T>
  WT_FORMULA static T value(T x) {
    return num<T>(0.5) * x * (num<T>(1) + tanh(inner(x)));
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const T& x, const T&) {
    const T t = tanh(inner(x));
    const T slope = num<T>(kSqrtTwoOverPi) * (num<T>(1) + num<T>(3 * kCubic) * x * x);
    return gy * num<T>(0.5) * (num<T>(1) + t + x * (num<T>(1) - t * t) * slope);
  }
};
struct Sign : Kind<Domain::any, Derivative::piecewise> {
  static constexpr int kArity = 1, kNeeds0 = kNeedsNone;
  static constexpr bool kFused = false;
  template <class T>
  WT_FORMULA static T value(T x) {
    return sign(x);
  }
  template <class T>
  WT_FORMULA static T d0(T gy, const auto&, const auto&) {
    return where(ne(gy, 0), 0, gy);  // not gy * 0: that is NaN for what is not finite
  }
};
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
      const T v = x < T(lo) ? T(lo) : x;
      return v > T(hi) ? T(hi) : v;
    }
  }
  template <class T>
  WT_FORMULA T d0(T gy, const T& x, const T&) const {
    return where(logical_and(ge(x, num<T>(lo)), le(x, num<T>(hi))), gy, 0);
  }
};

// --- truth: bool outputs, no gradient ------------------------------------------------------------
WT_BINARY_PREDICATE(Eq, a == b);
WT_BINARY_PREDICATE(Ne, a != b);
WT_BINARY_PREDICATE(Lt, a < b);
WT_BINARY_PREDICATE(Le, a <= b);
WT_BINARY_PREDICATE(Gt, a > b);
WT_BINARY_PREDICATE(Ge, a >= b);
WT_BINARY_PREDICATE(LogicalAnd, a != T(0) && b != T(0));
WT_BINARY_PREDICATE(LogicalOr, a != T(0) || b != T(0));
WT_UNARY_PREDICATE(LogicalNot, x == T(0));
WT_UNARY_PREDICATE(IsNan, x != x);
WT_UNARY_PREDICATE(IsFinite, minus(x, x) == T(0));
// c ? a : b
struct Where : Kind<Domain::any, Derivative::linear, Autocast::promote> {
  static constexpr int kArity = 3;
  static constexpr bool kSelects = true, kFused = false;
  template <class T>
  WT_FORMULA static T value(T c, T a, T b) {
    return c != T(0) ? a : b;
  }
};

// The fused backward with respect to operand I of entry F: its operands are gy and what that
// derivative needs of a, b and the output, in this order.
template <class F, int I>
struct Grad : Kind<Domain::floating, Derivative::none> {
  static constexpr int kNeeds = I == 0 ? F::kNeeds0 : F::kNeeds1;
  static constexpr int kAtB = (kNeeds & kNeedsA) != 0, kAtOut = kAtB + ((kNeeds & kNeedsB) != 0);
  static constexpr int kArity = 1 + kAtOut + ((kNeeds & kNeedsOut) != 0);
  F f{};
  template <class T, class... Saved>
  WT_FORMULA T value(T gy, Saved... saved) const {
    const T v[] = {saved..., gy};  // gy stands in for what is not needed
    if constexpr (F::kArity == 1)
      return f.d0(gy, v[0], v[kAtOut]);
    else if constexpr (I == 0)
      return f.d0(gy, v[0], v[kAtB], v[kAtOut]);
    else
      return f.d1(gy, v[0], v[kAtB], v[kAtOut]);
  }
};
// f of its operands.
template <class F, class T>
WT_FORMULA auto apply(const F& f, const T (&v)[F::kArity]) {
  if constexpr (F::kArity == 1)
    return f.value(v[0]);
  else if constexpr (F::kArity == 2)
    return f.value(v[0], v[1]);
  else if constexpr (F::kArity == 3)
    return f.value(v[0], v[1], v[2]);
  else
    return f.value(v[0], v[1], v[2], v[3]);
}

template <class F>
using Grad0 = Grad<F, 0>;
template <class F>
using Grad1 = Grad<F, 1>;

#undef WT_UNARY
#undef WT_BINARY
#undef WT_UNARY_PREDICATE
#undef WT_BINARY_PREDICATE
}  // namespace pw

// out[i] = f.value(in[0][i], in[1][i], ...), operands broadcast to out's shape; out may be one of
// them. A null view stands for the scalar (at most one operand). The operands have one dtype, which
// is out's too, except: predicates write bool, and operand 0 of `where` is bool.
template <class F>
struct PointwiseArgs {
  View out;
  View in[F::kArity];
  double scalar = 0;   // for floating tensors
  i64 scalar_int = 0;  // for integer tensors
  F f{};               // parameters, where the entry has some

  i64 bytes() const {
    i64 n = out.bytes();
    for (const View& v : in) n += v ? v.bytes() : 0;
    return n;
  }
  i64 flops() const { return out.numel(); }
  // What it computes in: the dtype of the operands.
  WT_HOT DType dtype() const {
    if constexpr (!F::kPredicate)
      return out.dtype();
    else
      return in[0] ? in[0].dtype() : in[F::kArity - 1].dtype();
  }
};

// --- THE LIST: X(M, name, entry); M is passed on ------------------------------------------------
// clang-format off
// `Tensor name(const In& x)` with a fused backward,
#define WT_POINTWISE_UNARY(X, M) \
  X(M, abs, Abs)                 \
  X(M, cos, Cos)                 \
  X(M, erf, Erf)                 \
  X(M, exp, Exp)                 \
  X(M, gelu, Gelu)               \
  X(M, gelu_tanh, GeluTanh)      \
  X(M, log, Log)                 \
  X(M, reciprocal, Reciprocal)   \
  X(M, relu, Relu)               \
  X(M, rsqrt, Rsqrt)             \
  X(M, sigmoid, Sigmoid)         \
  X(M, silu, Silu)               \
  X(M, sin, Sin)                 \
  X(M, sqrt, Sqrt)               \
  X(M, square, Square)           \
  X(M, tanh, Tanh)
// and without one.
#define WT_POINTWISE_UNARY_PLAIN(X, M) \
  X(M, isfinite, IsFinite)             \
  X(M, isnan, IsNan)                   \
  X(M, logical_not, LogicalNot)        \
  X(M, neg, Neg)                       \
  X(M, sign, Sign)
// `Tensor name(const Operand& a, const Operand& b)` with two fused backwards,
#define WT_POINTWISE_BINARY(X, M) \
  X(M, div, Div)                  \
  X(M, maximum, Maximum)          \
  X(M, minimum, Minimum)          \
  X(M, pow, Pow)
// and without.
#define WT_POINTWISE_BINARY_PLAIN(X, M) \
  X(M, add, Add)                        \
  X(M, eq, Eq)                          \
  X(M, ge, Ge)                          \
  X(M, gt, Gt)                          \
  X(M, le, Le)                          \
  X(M, logical_and, LogicalAnd)         \
  X(M, logical_or, LogicalOr)           \
  X(M, lt, Lt)                          \
  X(M, mul, Mul)                        \
  X(M, ne, Ne)                          \
  X(M, sub, Sub)
// Declared and defined by hand (autograd/ops.h, ops_pointwise.cpp): with a fused backward, and without.
#define WT_POINTWISE_OTHER(X, M) X(M, clamp, Clamp)
#define WT_POINTWISE_OTHER_PLAIN(X, M) X(M, where, Where)
// clang-format on

// X(contract name, argument struct)
#define WT_PW_FORWARD(X, name, F) X(name, PointwiseArgs<pw::F>)
#define WT_PW_BACKWARD(X, name, F) X(name##_backward, PointwiseArgs<pw::Grad0<pw::F>>)
#define WT_PW_BACKWARD_AB(X, name, F)                   \
  X(name##_backward_a, PointwiseArgs<pw::Grad0<pw::F>>) \
  X(name##_backward_b, PointwiseArgs<pw::Grad1<pw::F>>)
#define WT_POINTWISE_UNARY_CONTRACTS(X)      \
  WT_POINTWISE_UNARY(WT_PW_FORWARD, X)       \
  WT_POINTWISE_UNARY_PLAIN(WT_PW_FORWARD, X) \
  WT_POINTWISE_OTHER(WT_PW_FORWARD, X)
#define WT_POINTWISE_BINARY_CONTRACTS(X)      \
  WT_POINTWISE_BINARY(WT_PW_FORWARD, X)       \
  WT_POINTWISE_BINARY_PLAIN(WT_PW_FORWARD, X) \
  WT_POINTWISE_OTHER_PLAIN(WT_PW_FORWARD, X)
#define WT_POINTWISE_BACKWARD_CONTRACTS(X) \
  WT_POINTWISE_UNARY(WT_PW_BACKWARD, X)    \
  WT_POINTWISE_OTHER(WT_PW_BACKWARD, X)    \
  WT_POINTWISE_BINARY(WT_PW_BACKWARD_AB, X)
#define WT_POINTWISE_CONTRACTS(X)  \
  WT_POINTWISE_UNARY_CONTRACTS(X)  \
  WT_POINTWISE_BINARY_CONTRACTS(X) \
  WT_POINTWISE_BACKWARD_CONTRACTS(X)

#define WT_POINTWISE_DECLARE(contract, Args) WT_CONTRACT(contract, Args);
WT_POINTWISE_CONTRACTS(WT_POINTWISE_DECLARE)
#undef WT_POINTWISE_DECLARE

}  // namespace wt
