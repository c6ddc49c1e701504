// Arithmetic in f32 and f64: PTX ISA 9.0, "Floating-Point Instructions". Rounding as IEEE 754 has
// it, by the host's own unit under the same mode; flushing and saturation by hand.
#include <cfenv>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

// Operations that the compiler may neither fold nor move across a change of mode.
template <class T, class F>
T under(int mode, F&& f) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile T r = f();
  std::fesetround(before);
  return r;
}
template <class T>
T add(int mode, T a_, T b_) {
  volatile T a = a_, b = b_;  // read where the mode holds
  return under<T>(mode, [&] { return a + b; });
}
template <class T>
T sub(int mode, T a_, T b_) {
  volatile T a = a_, b = b_;  // read where the mode holds
  return under<T>(mode, [&] { return a - b; });
}
template <class T>
T mul(int mode, T a_, T b_) {
  volatile T a = a_, b = b_;  // read where the mode holds
  return under<T>(mode, [&] { return a * b; });
}
template <class T>
T div(int mode, T a_, T b_) {
  volatile T a = a_, b = b_;  // read where the mode holds
  return under<T>(mode, [&] { return a / b; });
}
template <class T>
T fma(int mode, T a_, T b_, T c_) {
  volatile T a = a_, b = b_, c = c_;
  return under<T>(mode, [&] { return std::fma(T(a), T(b), T(c)); });
}
template <class T>
T root(int mode, T a_) {
  volatile T a = a_;
  return under<T>(mode, [&] { return std::sqrt(T(a)); });
}

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }
// What lies below the smallest normal number and is rounded up to it may count as subnormal or not:
// the ISA does not say whether rounding or flushing comes first.
bool flushed_to(float got, float want, long double exact) {
  const bool edge = std::fabs(want) == 0x1p-126f && std::fabs(exact) < 0x1p-126L;
  return same(got, want) || (edge && same(got, std::copysign(0.f, want)));
}
float clamped(float x) { return x >= 1 ? 1.f : x > 0 ? x : 0.f; }

constexpr std::pair<const char*, int> kModes[] = {
    {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

// The lesser and the greater as minNum and maxNum: -0 is less than +0, a number wins over a NaN.
template <class T>
T lesser(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T greater(T a, T b) {
  return -lesser<T>(-a, -b);
}

template <class T>
void rounded(const std::string& t) {
  for (const auto& [name, m] : kModes) {
    const int mode = m;
    const std::string of = name + t;
    check<T>("add" + of, cases<T, T>(), [=](T a, T b) { return add<T>(mode, a, b); });
    check<T>("sub" + of, cases<T, T>(), [=](T a, T b) { return sub<T>(mode, a, b); });
    check<T>("mul" + of, cases<T, T>(), [=](T a, T b) { return mul<T>(mode, a, b); });
    check<T>("div" + of, cases<T, T>(), [=](T a, T b) { return div<T>(mode, a, b); });
    check<T>("fma" + of, cases<T, T, T>(), [=](T a, T b, T c) { return fma<T>(mode, a, b, c); });
    check<T>("mad" + of, cases<T, T, T>(), [=](T a, T b, T c) { return fma<T>(mode, a, b, c); });
    check<T>("rcp" + of, cases<T>(), [=](T a) { return div<T>(mode, 1, a); });
    check<T>("sqrt" + of, cases<T>(), [=](T a) { return root<T>(mode, a); });
  }
  check<T>("add" + t, cases<T, T>(), [](T a, T b) { return add<T>(FE_TONEAREST, a, b); });
  check<T>("sub" + t, cases<T, T>(), [](T a, T b) { return sub<T>(FE_TONEAREST, a, b); });
  check<T>("mul" + t, cases<T, T>(), [](T a, T b) { return mul<T>(FE_TONEAREST, a, b); });
  check<T>("neg" + t, cases<T>(), [](T a) { return -a; });
  check<T>("abs" + t, cases<T>(), [](T a) { return std::fabs(a); });
  check<T>("min" + t, cases<T, T>(), lesser<T>);
  check<T>("max" + t, cases<T, T>(), greater<T>);
  check<T>("copysign" + t, cases<T, T>(), [](T a, T b) { return std::copysign(b, a); });
}

}  // namespace

TEST_CASE("f32 rounds as it is told", "[emulator]") { rounded<float>(".f32"); }
TEST_CASE("f64 rounds as it is told", "[emulator]") { rounded<double>(".f64"); }

TEST_CASE("Flushing subnormals", "[emulator]") {
  constexpr int mode = FE_TONEAREST;
  const auto f = flushed;
  using Wide = long double;
  check<float>("add.ftz.f32", cases<float, float>(),
               [=](float a, float b) { return f(add<float>(mode, f(a), f(b))); });
  check<float>("sub.rn.ftz.f32", cases<float, float>(),
               [=](float a, float b) { return f(sub<float>(mode, f(a), f(b))); });
  check_each<float>("mul.ftz.f32", cases<float, float>(), [=](float d, float a, float b) {
    return flushed_to(d, f(mul<float>(mode, f(a), f(b))), Wide(f(a)) * f(b));
  });
  check_each<float>("div.rn.ftz.f32", cases<float, float>(), [=](float d, float a, float b) {
    return flushed_to(d, f(div<float>(mode, f(a), f(b))), Wide(f(a)) / f(b));
  });
  check_each<float>(
      "fma.rn.ftz.f32", cases<float, float, float>(), [=](float d, float a, float b, float c) {
        return flushed_to(d, f(fma<float>(mode, f(a), f(b), f(c))), Wide(f(a)) * f(b) + f(c));
      });
  check<float>("rcp.rn.ftz.f32", cases<float>(),
               [=](float a) { return f(div<float>(mode, 1, f(a))); });
  check<float>("sqrt.rn.ftz.f32", cases<float>(), [=](float a) { return root<float>(mode, f(a)); });
  check<float>("neg.ftz.f32", cases<float>(), [=](float a) { return -f(a); });
  check<float>("abs.ftz.f32", cases<float>(), [=](float a) { return std::fabs(f(a)); });
  check<float>("min.ftz.f32", cases<float, float>(),
               [=](float a, float b) { return lesser(f(a), f(b)); });
  check<float>("max.ftz.f32", cases<float, float>(),
               [=](float a, float b) { return greater(f(a), f(b)); });
}

TEST_CASE("Saturation to [0, 1]", "[emulator]") {
  check<float>("add.sat.f32", cases<float, float>(),
               [](float a, float b) { return clamped(add<float>(FE_TONEAREST, a, b)); });
  check<float>("sub.rz.sat.f32", cases<float, float>(),
               [](float a, float b) { return clamped(sub<float>(FE_TOWARDZERO, a, b)); });
  check_each<float>("mul.ftz.sat.f32", cases<float, float>(), [](float d, float a, float b) {
    a = flushed(a), b = flushed(b);
    const float want = clamped(flushed(mul<float>(FE_TONEAREST, a, b)));
    return flushed_to(d, want, (long double)a * b);
  });
  check<float>("fma.rm.sat.f32", cases<float, float, float>(),
               [](float a, float b, float c) { return clamped(fma<float>(FE_DOWNWARD, a, b, c)); });
}

TEST_CASE("NaN in f32 is one NaN", "[emulator]") {
  const auto all = cases<float, float>();
  const auto one = [](float got, float want) {
    return want == want ? bits_of(got) == bits_of(want) : bits_of(got) == 0x7fffffff;
  };
  const auto n = FE_TONEAREST;
  check_each<float>("add.f32", all,
                    [=](float d, float a, float b) { return one(d, add<float>(n, a, b)); });
  check_each<float>("mul.rz.f32", all, [=](float d, float a, float b) {
    return one(d, mul<float>(FE_TOWARDZERO, a, b));
  });
  check_each<float>("min.f32", all,
                    [=](float d, float a, float b) { return one(d, lesser(a, b)); });
  check_each<float>("max.f32", all,
                    [=](float d, float a, float b) { return one(d, greater(a, b)); });
  check_each<float>("sqrt.rn.f32", cases<float>(),
                    [=](float d, float a) { return one(d, root<float>(n, a)); });
}

TEST_CASE("Minimum and maximum with modifiers", "[emulator]") {
  const float nan = NAN;
  const auto all = cases<float, float>();
  check<float>("min.NaN.f32", all,
               [=](float a, float b) { return a != a || b != b ? nan : lesser(a, b); });
  check<float>("max.NaN.f32", all,
               [=](float a, float b) { return a != a || b != b ? nan : greater(a, b); });
  const auto sign = [](float r, float a, float b) {
    return std::copysign(r, std::signbit(a) != std::signbit(b) ? -1.f : 1.f);
  };
  check<float>("min.xorsign.abs.f32", all,
               [=](float a, float b) { return sign(lesser(std::fabs(a), std::fabs(b)), a, b); });
  check<float>("max.NaN.xorsign.abs.f32", all, [=](float a, float b) {
    return a != a || b != b ? nan : sign(greater(std::fabs(a), std::fabs(b)), a, b);
  });
}

TEST_CASE("Questions about a number", "[emulator]") {
  const auto ask = [](const std::string& what, auto answer) {
    check<u32>("testp." + what + ".f32 %q0, $0; selp.u32 $d, 1, 0, %q0;", cases<float>(),
               [=](float a) { return u32(answer(a)); });
    check<u32>("testp." + what + ".f64 %q0, $0; selp.u32 $d, 1, 0, %q0;", cases<double>(),
               [=](double a) { return u32(answer(a)); });
  };
  ask("finite", [](auto a) { return std::isfinite(a); });
  ask("infinite", [](auto a) { return std::isinf(a); });
  ask("number", [](auto a) { return !std::isnan(a); });
  ask("notanumber", [](auto a) { return std::isnan(a); });
  ask("normal", [](auto a) { return std::isnormal(a); });
  ask("subnormal", [](auto a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

TEST_CASE("Immediates of floating types", "[emulator]") {
  check<float>("mul.f32 $d, $0, 0f3F000000;", cases<float>(), [](float a) { return a * 0.5f; });
  check<float>("fma.rn.f32 $d, $0, 0fBF800000, 0f40490FDB;", cases<float>(),
               [](float a) { return std::fma(a, -1.f, f32(0x40490fdb)); });
  check<double>("add.f64 $d, $0, 0d3FF0000000000000;", cases<double>(),
                [](double a) { return a + 1; });
  check<double>("sub.f64 $d, 0dC000000000000000, $0;", cases<double>(),
                [](double a) { return -2 - a; });
}
