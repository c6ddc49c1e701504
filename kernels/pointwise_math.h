// The names that the formulas of kernels/pointwise.h use, for scalars. The same names exist for
// tensors (autograd/ops.h); a template finds those by argument-dependent lookup. No STL.
#pragma once
#include <math.h>

#include <type_traits>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"
#include "warptape/kernels/common/float_math.h"

// Always inlined: a formula leaves no symbol that the simt and the cuda build would share.
#define WT_FORMULA WT_HD WT_HOT

namespace wt::pw {

template <class T>
concept Plain = std::is_arithmetic_v<T>;
template <class T>
concept Floating = std::is_floating_point_v<T>;

// A constant of the formula's type: T's own, so that float stays float on the device; beside a
// tensor a plain number.
template <class T>
WT_FORMULA constexpr auto num(double v) {
  if constexpr (Plain<T>)
    return T(v);
  else
    return v;
}
// Gives a value up: beside tensors the next operator may work in its storage.
template <class T>
WT_FORMULA constexpr T&& take(T& v) {
  return static_cast<T&&>(v);
}

#if defined(__CUDACC__) && !defined(WT_FORMULAS_BY_LIBM)
#define WT_FORMULAS_BY_LIBM 1
#endif
// On floats: the device's and the simt device's own functions, which take an element at a time; on
// the cpu those of common/float_math.h, which loops turn into vector code.
#if WT_FORMULAS_BY_LIBM
#define WT_FLOAT_FUNCTION(name, on_cpu) \
  WT_FORMULA float name(float x) { return ::name##f(x); }
#else
#define WT_FLOAT_FUNCTION(name, on_cpu) \
  WT_FORMULA float name(float x) { return on_cpu; }
#endif
#define WT_FUNCTION(name, on_cpu) \
  WT_FLOAT_FUNCTION(name, on_cpu) \
  WT_FORMULA double name(double x) { return ::name(x); }
#define WT_ANGLE_FUNCTION(name) \
  WT_FUNCTION(name, float_math::is_moderate(x) ? float_math::name##_moderate(x) : ::name##f(x))
WT_FUNCTION(exp, float_math::exp(x))
WT_FUNCTION(log, float_math::log(x))
WT_FUNCTION(sqrt, ::sqrtf(x))
WT_FUNCTION(tanh, float_math::tanh(x))
WT_FUNCTION(erf, float_math::erf(x))
WT_FUNCTION(asin, float_math::asin(x))
WT_FUNCTION(acos, float_math::acos(x))
WT_FUNCTION(log2, float_math::log2(x))
WT_FUNCTION(log10, float_math::log10(x))
WT_FUNCTION(expm1, float_math::expm1(x))
WT_FUNCTION(log1p, float_math::log1p(x))
WT_ANGLE_FUNCTION(sin)
WT_ANGLE_FUNCTION(cos)
#undef WT_ANGLE_FUNCTION
#undef WT_FUNCTION
#undef WT_FLOAT_FUNCTION

// CUDA documents tanf and acoshf to be off by up to 4 units in the last place, atan2f, sinhf,
// asinhf and atanhf by 3 (CUDA C++ Programming Guide, mathematical functions), where the others
// keep 2: so these are the cpu's on every device, and cosh, whose two approximations add up to more
// where both are as bad as documented. Of a large angle the double function is right,
// and asked for rarely.
WT_FORMULA float tan(float x) {
#if WT_FORMULAS_BY_LIBM
  return float_math::is_moderate(x) ? float_math::tan_moderate(x) : float(::tan(double(x)));
#else
  return float_math::is_moderate(x) ? float_math::tan_moderate(x) : ::tanf(x);
#endif
}
WT_FORMULA double tan(double x) { return ::tan(x); }
WT_FORMULA float sinh(float x) { return float_math::sinh(x); }
WT_FORMULA double sinh(double x) { return ::sinh(x); }
WT_FORMULA float cosh(float x) { return float_math::cosh(x); }
WT_FORMULA double cosh(double x) { return ::cosh(x); }
WT_FORMULA float atan2(float y, float x) { return float_math::atan2(y, x); }
WT_FORMULA double atan2(double y, double x) { return ::atan2(y, x); }
WT_FORMULA float atan(float x) { return float_math::atan2(x, 1.0f); }
WT_FORMULA double atan(double x) { return ::atan(x); }
WT_FORMULA float asinh(float x) { return float_math::asinh(x); }
WT_FORMULA double asinh(double x) { return ::asinh(x); }
WT_FORMULA float acosh(float x) { return float_math::acosh(x); }
WT_FORMULA double acosh(double x) { return ::acosh(x); }
WT_FORMULA float atanh(float x) { return float_math::atanh(x); }
WT_FORMULA double atanh(double x) { return ::atanh(x); }

#if !WT_FORMULAS_BY_LIBM
// A float in a formula of angles, known to be moderate where the angle is asked for: the same bits
// without the branch.
struct Moderate {
  float v = 0;
  Moderate() = default;
  WT_FORMULA explicit Moderate(float x) : v(x) {}
  WT_FORMULA explicit operator float() const { return v; }
};
WT_FORMULA Moderate operator*(Moderate a, Moderate b) { return Moderate(a.v * b.v); }
WT_FORMULA Moderate operator-(Moderate a) { return Moderate(-a.v); }
WT_FORMULA Moderate sin(Moderate x) { return Moderate(float_math::sin_moderate(x.v)); }
WT_FORMULA Moderate cos(Moderate x) { return Moderate(float_math::cos_moderate(x.v)); }
WT_FORMULA Moderate tan(Moderate x) { return Moderate(float_math::tan_moderate(x.v)); }
#endif

#if defined(__CUDA_ARCH__)
WT_FORMULA float rsqrt(float x) { return ::rsqrtf(x); }
WT_FORMULA double rsqrt(double x) { return ::rsqrt(x); }
#else
WT_FORMULA float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
WT_FORMULA double rsqrt(double x) { return 1.0 / ::sqrt(x); }
#endif
#if WT_FORMULAS_BY_LIBM
WT_FORMULA float power(float a, float b) { return ::powf(a, b); }
#else
WT_FORMULA float power(float a, float b) { return float_math::pow(a, b); }
#endif
WT_FORMULA double power(double a, double b) { return ::pow(a, b); }
// Of the smaller exponential, which is finite.
#if WT_FORMULAS_BY_LIBM
WT_FORMULA float log1p_exp(float x) { return (x > 0 ? x : 0) + ::log1pf(::expf(-::fabsf(x))); }
#else
WT_FORMULA float log1p_exp(float x) { return float_math::log1p_exp(x); }
#endif
WT_FORMULA double log1p_exp(double x) { return (x > 0 ? x : 0) + ::log1p(::exp(-::fabs(x))); }
template <Floating T>
WT_FORMULA T sigmoid(T x) {
  const T y = T(1) / (T(1) + exp(-x));
  return x == x ? y : x;  // a fused step may take the minus away from a NaN
}
// Beyond 20 it is x in every dtype.
template <Floating T>
WT_FORMULA T softplus(T x) {
  return x > T(20) ? x : log1p_exp(x);
}

// Integers have nothing to round.
#define WT_ROUNDING(name, libm)                             \
  template <class T>                                        \
  requires std::is_arithmetic_v<T> WT_FORMULA T name(T x) { \
    if constexpr (std::is_same_v<T, float>)                 \
      return ::libm##f(x);                                  \
    else if constexpr (std::is_same_v<T, double>)           \
      return ::libm(x);                                     \
    else                                                    \
      return x;                                             \
  }
WT_ROUNDING(ceil, ceil)
WT_ROUNDING(floor, floor)
WT_ROUNDING(trunc, trunc)
WT_ROUNDING(round_even, rint)  // halves to the even neighbour, as IEEE 754 and PyTorch do
#undef WT_ROUNDING

// --- integers wrap, bool has `or` for + and `and` for * ---
// A type in which arithmetic on T cannot overflow in the language's sense.
template <class T>
using Wrapping =
    std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, int>>;

template <Plain T>
WT_FORMULA constexpr T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(Wrapping<T>(a) + Wrapping<T>(b));
  else
    return a + b;
}
template <Plain T>
WT_FORMULA constexpr T minus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(Wrapping<T>(a) - Wrapping<T>(b));
  else
    return a - b;
}
template <Plain T>
WT_FORMULA constexpr T times(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(Wrapping<T>(a) * Wrapping<T>(b));
  else
    return a * b;
}
template <Plain T>
WT_FORMULA constexpr T negative(T x) {
  if constexpr (std::is_integral_v<T>)
    return T(Wrapping<T>(0) - Wrapping<T>(x));
  else
    return -x;
}
// For unsigned types too, without a warning.
template <Plain T>
WT_FORMULA constexpr bool below_zero(T x) {
  if constexpr (std::is_signed_v<T>)
    return x < T(0);
  else
    return false;
}
template <Plain T>
WT_FORMULA T abs(T x) {
  if constexpr (std::is_same_v<T, float>)
    return ::fabsf(x);
  else if constexpr (std::is_same_v<T, double>)
    return ::fabs(x);
  else
    return below_zero(x) ? negative(x) : x;
}
template <Plain T>
WT_FORMULA constexpr bool is_infinite(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return x == T(__builtin_inf()) || x == -T(__builtin_inf());
}
// NaN gives 0, as in PyTorch.
template <Plain T>
WT_FORMULA constexpr T sign(T x) {
  return T(int(x > T(0)) - int(below_zero(x)));
}
// A NaN on either side is the result.
template <Plain T>
WT_FORMULA constexpr T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <Plain T>
WT_FORMULA constexpr T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}
// Squares are common and no pow is cheap. Integers: negative exponents give the truncated
// quotient 1 / a^n, so 0 but for a = 1 and -1 (and a = 0, where it is 0 too).
template <Plain T>
WT_FORMULA T pow(T a, std::type_identity_t<T> b) {
  if constexpr (std::is_integral_v<T>) {
    if (below_zero(b)) return a == T(1) ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
    T r = T(1);
    for (u64 n = u64(b); n; n >>= 1, a = times(a, a))
      if (n & 1) r = times(r, a);
    return r;
  } else {
    return b == T(2) ? a * a : power(a, b);
  }
}

// The larger plus log(1 + e^-difference); equal infinities have no difference.
template <Floating T>
WT_FORMULA T log_add_exp(T a, T b) {
  const T high = maximum(a, b), low = minimum(a, b);
  return high + log1p_exp(low == high ? T(0) : low - high);
}

// --- whole quotients and what they leave ---
// Integers by 0 give 0, quotient and remainder, as in NumPy; the least integer by -1 wraps. Floats
// by 0 give what IEEE 754 says of a / b, and NaN for the remainder.
template <Plain T>
WT_FORMULA constexpr bool is_minus_one(T b) {
  return below_zero(b) && b == T(-1);
}
template <Plain T>
WT_FORMULA T trunc_remainder(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return ::fmodf(a, b);
  else if constexpr (std::is_same_v<T, double>)
    return ::fmod(a, b);
  else
    return b == T(0) || is_minus_one(b) ? T(0) : T(a % b);
}
// Whether a remainder that has the dividend's sign is to have the divisor's.
template <Plain T>
WT_FORMULA bool is_other_side(T remainder, T b) {
  return remainder != T(0) && below_zero(remainder) != below_zero(b);
}
template <Plain T>
WT_FORMULA T floor_remainder(T a, T b) {
  const T r = trunc_remainder(a, b);
  return is_other_side(r, b) ? plus(r, b) : r;
}
template <Plain T>
WT_FORMULA T trunc_quotient(T a, T b) {
  if constexpr (Floating<T>)
    return trunc(a / b);
  else
    return b == T(0) ? T(0) : is_minus_one(b) ? negative(a) : T(a / b);
}
// Of floats by way of the exact remainder: a / b may be rounded up to the next whole number.
template <Plain T>
WT_FORMULA T floor_quotient(T a, T b) {
  if constexpr (Floating<T>) {
    const T r = trunc_remainder(a, b), ratio = a / b;
    const T near = (a - r) / b - (is_other_side(r, b) ? T(1) : T(0)), below = floor(near);
    const T whole = near - below > T(0.5) ? below + T(1) : below;
    return b == T(0) ? ratio : near == T(0) ? ratio * T(0) : whole;
  } else {
    const T q = trunc_quotient(a, b);
    return is_other_side(trunc_remainder(a, b), b) ? minus(q, T(1)) : q;
  }
}

// --- bits ---
// By a negative count, or by as many bits as there are and more, everything is shifted out: what
// stays is 0, and to the right the sign.
template <Plain T>
WT_FORMULA constexpr bool is_shift(T n) {
  return !below_zero(n) && u64(n) < 8 * sizeof(T);
}
template <Plain T>
WT_FORMULA constexpr T shift_left(T a, T n) {
  return is_shift(n) ? T(Wrapping<T>(a) << int(n)) : T(0);
}
template <Plain T>
WT_FORMULA constexpr T shift_right(T a, T n) {
  return is_shift(n) ? T(a >> int(n)) : below_zero(a) ? T(-1) : T(0);
}

// --- truth ---
#define WT_COMPARISON(name, op)                                    \
  template <Plain T>                                               \
  WT_FORMULA constexpr bool name(T a, std::type_identity_t<T> b) { \
    return a op b;                                                 \
  }
WT_COMPARISON(eq, ==)
WT_COMPARISON(ne, !=)
WT_COMPARISON(lt, <)
WT_COMPARISON(le, <=)
WT_COMPARISON(gt, >)
WT_COMPARISON(ge, >=)
#undef WT_COMPARISON
WT_FORMULA constexpr bool logical_and(bool a, bool b) { return a && b; }
WT_FORMULA constexpr bool logical_or(bool a, bool b) { return a || b; }
template <Plain A, Plain B>
WT_FORMULA constexpr auto where(bool c, A a, B b) {
  return c ? a : b;
}

}  // namespace wt::pw
