// Approximations: PTX ISA 9.0's bounds and its tables of special operands. The exact value is a
// long double's; nothing is asked of the last bits but the bound.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }

bool near(double got, long double exact, long double bound) {
  if (exact != exact) return got != got;
  if (std::isinf(exact) || exact == 0)
    return got == double(exact) && std::signbit(got) == std::signbit(exact);
  return std::fabs((long double)got - exact) <= bound;
}
// Within `relative`, and half a unit in the last place for the result's own rounding; what is
// smaller than a normal number, or larger than all, may be rounded to that.
bool near32(float got, long double exact, long double relative, bool ftz) {
  const long double size = std::fabs(exact);
  if (size > 0x1.fffffcp127L && std::isfinite(exact)) return std::fabs(got) > 0x1.fffff0p127f;
  if (size < 0x1.00001p-126L && exact != 0 && exact == exact)
    return ftz ? std::fabs(got) <= 0x1.00001p-126f
               : std::fabs((long double)got - exact) <= size * relative + 0x1p-149L;
  return near(got, exact, size * (relative + 0x1p-24L));
}

template <class F>
void unary(const std::string& name, long double relative, F&& exact) {
  for (const bool ftz : {false, true})
    check_each<float>(name + (ftz ? ".approx.ftz.f32" : ".approx.f32"), cases<float>(3000),
                      [=](float got, float a) {
                        return near32(got, exact((long double)(ftz ? flushed(a) : a)), relative,
                                      ftz);
                      });
}

}  // namespace

TEST_CASE("Powers, roots and reciprocals", "[emulator]") {
  unary("ex2", 0x1p-22L, [](long double a) { return std::exp2(a); });
  unary("rcp", 0x1p-23L, [](long double a) { return 1 / a; });
  unary("sqrt", 0x1p-22L, [](long double a) { return std::sqrt(a); });
  unary("rsqrt", 0x1p-22L, [](long double a) { return 1 / std::sqrt(a); });
  check_each<float>("tanh.approx.f32", cases<float>(3000), [](float got, float a) {
    return near32(got, std::tanh((long double)a), 0x1p-11L, false);
  });
  for (const bool ftz : {false, true})
    check_each<float>(
        ftz ? "lg2.approx.ftz.f32" : "lg2.approx.f32", cases<float>(3000), [=](float got, float a) {
          const long double exact = std::log2((long double)(ftz ? flushed(a) : a));
          const long double size = std::fabs(exact);
          return near(got, exact,
                      (a > 0.5f && a < 2 ? 0x1p-22L : size * 0x1p-22L) + size * 0x1p-24L);
        });
}

TEST_CASE("A reciprocal is a power of two where its operand is", "[emulator]") {
  // What nvcc's division of __int128 counts on: it reads the fraction of an approximation.
  Cases<float> all;
  for (u32 i = 0; i < 2000; ++i)
    all.push_back({f32(0x3fffffff - i)}), all.push_back({f32(0x3f800000 + i)});
  check_each<float>("rcp.approx.ftz.f32", all, [](float got, float a) {
    return ((bits_of(got) & 0x7fffff) == 0) == ((bits_of(a) & 0x7fffff) == 0);
  });
}

TEST_CASE("Quotients", "[emulator]") {
  for (const bool ftz : {false, true}) {
    const std::string t = ftz ? ".ftz.f32" : ".f32";
    const auto good = [=](float got, float a, float b) {
      if (ftz) a = flushed(a), b = flushed(b);
      return near32(got, (long double)a / b, 0x1.8p-22L, ftz);
    };
    check_each<float>("div.full" + t, cases<float, float>(), good);
    // Divisors beyond 2^126 give 0, and a NaN for an infinity.
    check_each<float>("div.approx" + t, cases<float, float>(), [=](float got, float a, float b) {
      if (std::fabs(b) <= 0x1p126f || !std::isfinite(b) || a != a) return good(got, a, b);
      return std::isinf(a) ? got != got : got == 0;
    });
  }
}

TEST_CASE("Sine and cosine", "[emulator]") {
  Cases<float> all;
  std::mt19937 g(3);
  for (u32 i = 0; i < 3000; ++i) all.push_back({float(i32(g() % 400001) - 200000) * 3.14e-5f});
  check_each<float>("sin.approx.f32", all, [](float got, float a) {
    return std::fabs(got - std::sin((long double)a)) <= 0x1p-20L;
  });
  check_each<float>("cos.approx.ftz.f32", all, [](float got, float a) {
    return std::fabs(got - std::cos((long double)a)) <= 0x1p-20L;
  });
  const Cases<float> special = {{0.f}, {-0.f}, {INFINITY}, {-INFINITY}, {NAN}};
  check<float>("sin.approx.f32", special, [](float a) { return a == 0 ? a : NAN; });
  check<float>("cos.approx.f32", special, [](float a) { return a == 0 ? 1 : NAN; });
}

TEST_CASE("Rough reciprocals in f64", "[emulator]") {
  const auto good = [](double got, double a, long double exact) {
    if (std::fabs(a) < 0x1p-1022) return true;
    if (std::fabs(exact) < 0x1.00001p-1022L && exact != 0) return std::fabs(got) < 0x1.001p-1022;
    return near(got, exact, std::fabs(exact) * 0x1p-20L) && (got != got || u32(bits_of(got)) == 0);
  };
  check_each<double>("rcp.approx.ftz.f64", cases<double>(3000),
                     [=](double d, double a) { return good(d, a, 1 / (long double)a); });
  check_each<double>("rsqrt.approx.ftz.f64", cases<double>(3000),
                     [=](double d, double a) { return good(d, a, 1 / std::sqrt((long double)a)); });
  check_each<double>("rsqrt.approx.f64", cases<double>(3000), [](double d, double a) {
    const long double exact = 1 / std::sqrt((long double)a);
    return near(d, exact, std::fabs(exact) * 0x1p-51L);
  });
  // Subnormals count as zeros.
  const Cases<double> tiny = {{0x1p-1060}, {-0x1p-1060}, {0.0}, {-0.0}, {0x1p-1074}};
  check<double>("rcp.approx.ftz.f64", tiny, [](double a) { return std::copysign(INFINITY, a); });
  check<double>("rsqrt.approx.ftz.f64", tiny, [](double a) { return std::copysign(INFINITY, a); });
}
