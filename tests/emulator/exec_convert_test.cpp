// cvt between integers, f32 and f64: PTX ISA 9.0, "Data Movement and Conversion Instructions: cvt".
#include <cfenv>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

using i128 = __int128;

// Of an integer's register, 16 bits at least.
template <class T>
using Register =
    std::conditional_t<sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, i16, u16>, T>;

template <class D, class S>
D saturated(S x) {
  const i128 low = std::numeric_limits<D>::min(), top = std::numeric_limits<D>::max();
  return D(i128(x) < low ? low : i128(x) > top ? top : i128(x));
}

template <class T>
struct Named {
  const char* name;
};
template <class F>
void for_integers(F&& f) {
  f(Named<u8>{"u8"}), f(Named<i8>{"s8"}), f(Named<u16>{"u16"}), f(Named<i16>{"s16"});
  f(Named<u32>{"u32"}), f(Named<i32>{"s32"}), f(Named<u64>{"u64"}), f(Named<i64>{"s64"});
}

constexpr std::pair<const char*, int> kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class T>
T whole(int mode, T x) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile T in = x, r = std::nearbyint(T(in));
  std::fesetround(before);
  return r;
}
template <class D, class S>
D under(int mode, S x) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile S in = x;
  volatile D r = D(in);
  std::fesetround(before);
  return r;
}
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }

// Clamped to the result's range; a NaN is 0, but 1 << 63 where either side has 64 bits (f64 to
// fewer: 1 << the result's highest bit).
template <class D, class S>
D to_integer(int mode, S x) {
  if (x != x) {
    const bool zero = sizeof(S) < 8 && sizeof(D) < 8;
    return zero ? D(0) : D(std::make_unsigned_t<D>(1) << (8 * sizeof(D) - 1));
  }
  const long double r = (long double)whole(mode, x);  // 64 bits of fraction: exact
  if (r <= (long double)std::numeric_limits<D>::min()) return std::numeric_limits<D>::min();
  if (r >= (long double)std::numeric_limits<D>::max()) return std::numeric_limits<D>::max();
  return D(r);
}

}  // namespace

TEST_CASE("Integers to integers", "[emulator]") {
  for_integers([]<class D>(Named<D> to) {
    for_integers([&]<class S>(Named<S> from) {
      if (std::is_same_v<D, S>) return;
      const std::string types = std::string(to.name) + "." + from.name;
      using R = Register<D>;
      // A result narrower than its register is extended as its type's sign says.
      check<R>("cvt." + types, cases<Register<S>>(60), [](Register<S> a) { return R(D(S(a))); });
      using FromLimits = std::numeric_limits<S>;
      if (i128(saturated<D>(FromLimits::min())) == i128(FromLimits::min()) &&
          i128(saturated<D>(FromLimits::max())) == i128(FromLimits::max()))
        return;  // .sat is for what may not fit
      check<R>("cvt.sat." + types, cases<Register<S>>(60),
               [](Register<S> a) { return R(saturated<D>(S(a))); });
    });
  });
}

TEST_CASE("Registers wider than the type", "[emulator]") {
  check<u32>("cvt.u32.u8", cases<u32>(), [](u32 a) { return a & 255; });
  check<i32>("cvt.s32.s8", cases<u32>(), [](u32 a) { return i32(i8(a)); });
  check<i32>("cvt.s8.s32", cases<u32>(), [](u32 a) { return i32(i8(a)); });
  check<u32>("cvt.u16.u32", cases<u32>(), [](u32 a) { return a & 0xffff; });
  check<i64>("cvt.s16.s64", cases<i64>(), [](i64 a) { return i64(i16(a)); });
  check<float>("cvt.rn.f32.u8", cases<u32>(), [](u32 a) { return float(a & 255); });
}

TEST_CASE("Integers to floats", "[emulator]") {
  for (const auto& [name, m] : kModes) {
    const int mode = m;
    const std::string round = std::string("cvt.") + name;
    for_integers([&]<class S>(Named<S> from) {
      check<float>(round + ".f32." + from.name, cases<Register<S>>(),
                   [=](Register<S> a) { return under<float>(mode, S(a)); });
      check<double>(round + ".f64." + from.name, cases<Register<S>>(),
                    [=](Register<S> a) { return under<double>(mode, S(a)); });
    });
  }
}

TEST_CASE("Floats to integers", "[emulator]") {
  for (const auto& [name, m] : kModes) {
    const int mode = m;
    const std::string round = std::string("cvt.") + name + "i.";
    for_integers([&]<class D>(Named<D> to) {
      using R = Register<D>;
      check<R>(round + to.name + ".f32", cases<float>(),
               [=](float a) { return R(to_integer<D>(mode, a)); });
      check<R>(round + to.name + ".f64", cases<double>(),
               [=](double a) { return R(to_integer<D>(mode, a)); });
    });
  }
  check<i32>("cvt.rpi.ftz.s32.f32", cases<float>(),
             [](float a) { return to_integer<i32>(FE_UPWARD, flushed(a)); });
}

TEST_CASE("Floats to whole floats", "[emulator]") {
  for (const auto& [name, m] : kModes) {
    const int mode = m;
    const std::string round = std::string("cvt.") + name + "i.";
    check<float>(round + "f32.f32", cases<float>(), [=](float a) { return whole(mode, a); });
    check<double>(round + "f64.f64", cases<double>(), [=](double a) { return whole(mode, a); });
    check<float>(round + "ftz.f32.f32", cases<float>(),
                 [=](float a) { return whole(mode, flushed(a)); });
  }
}

TEST_CASE("Floats to floats", "[emulator]") {
  check<double>("cvt.f64.f32", cases<float>(), [](float a) { return double(a); });
  check<double>("cvt.ftz.f64.f32", cases<float>(), [](float a) { return double(flushed(a)); });
  for (const auto& [name, m] : kModes) {
    const int mode = m;
    check<float>(std::string("cvt.") + name + ".f32.f64", cases<double>(),
                 [=](double a) { return under<float>(mode, a); });
  }
  const auto limit = [](auto x) { return x >= 1 ? decltype(x)(1) : x > 0 ? x : decltype(x)(0); };
  check<float>("cvt.sat.f32.f32", cases<float>(), limit);
  check<double>("cvt.sat.f64.f64", cases<double>(), limit);
  check<float>("cvt.rn.sat.f32.f64", cases<double>(), [=](double a) { return limit(float(a)); });
  check<float>("cvt.ftz.f32.f32", cases<float>(), flushed);
  check_each<float>("cvt.rn.f32.f64", cases<double>(),
                    [](float d, double a) { return a == a || bits_of(d) == 0x7fffffff; });
}
