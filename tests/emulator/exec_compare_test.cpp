// Comparisons, selections and moves: PTX ISA 9.0, "Comparison and Selection Instructions" and
// "Data Movement and Conversion Instructions".
#include "run_ptx.h"

using namespace ptx_test;

namespace {

std::string flag(const std::string& setp) { return setp + " selp.u32 $d, 1, 0, %q0;"; }

template <class T>
void integers(const std::string& t, bool orders) {
  const auto all = cases<T, T>();
  const auto ask = [&](const std::string& q, auto answer) {
    check<u32>(flag("setp." + q + "." + t + " %q0, $0, $1;"), all,
               [=](T a, T b) { return u32(answer(a, b)); });
  };
  ask("eq", [](T a, T b) { return a == b; });
  ask("ne", [](T a, T b) { return a != b; });
  if (!orders) return;
  ask("lt", [](T a, T b) { return a < b; });
  ask("le", [](T a, T b) { return a <= b; });
  ask("gt", [](T a, T b) { return a > b; });
  ask("ge", [](T a, T b) { return a >= b; });
  if (std::is_signed_v<T>) return;
  ask("lo", [](T a, T b) { return a < b; });
  ask("ls", [](T a, T b) { return a <= b; });
  ask("hi", [](T a, T b) { return a > b; });
  ask("hs", [](T a, T b) { return a >= b; });
}

template <class T>
void floats(const std::string& t, T (*of)(T)) {
  const auto all = cases<T, T>();
  const auto ask = [&](const std::string& q, auto answer) {
    const auto ordered = [=](T a, T b) { return a == a && b == b && answer(of(a), of(b)); };
    check<u32>(flag("setp." + q + t + " %q0, $0, $1;"), all,
               [=](T a, T b) { return u32(ordered(a, b)); });
    check<u32>(flag("setp." + q + "u" + t + " %q0, $0, $1;"), all,
               [=](T a, T b) { return u32(a != a || b != b || answer(of(a), of(b))); });
    check<u32>("set." + q + ".u32" + t, all, [=](T a, T b) { return ordered(a, b) ? ~0u : 0u; });
    check<float>("set." + q + ".f32" + t, all, [=](T a, T b) { return ordered(a, b) ? 1.f : 0.f; });
  };
  ask("eq", [](T a, T b) { return a == b; });
  ask("ne", [](T a, T b) { return a != b; });
  ask("lt", [](T a, T b) { return a < b; });
  ask("le", [](T a, T b) { return a <= b; });
  ask("gt", [](T a, T b) { return a > b; });
  ask("ge", [](T a, T b) { return a >= b; });
  check<u32>(flag("setp.num" + t + " %q0, $0, $1;"), all,
             [](T a, T b) { return u32(a == a && b == b); });
  check<u32>(flag("setp.nan" + t + " %q0, $0, $1;"), all,
             [](T a, T b) { return u32(a != a || b != b); });
}

}  // namespace

TEST_CASE("Comparing integers", "[emulator]") {
  integers<u16>("u16", true);
  integers<i16>("s16", true);
  integers<u16>("b16", false);
  integers<u32>("u32", true);
  integers<i32>("s32", true);
  integers<u32>("b32", false);
  integers<u64>("u64", true);
  integers<i64>("s64", true);
  integers<u64>("b64", false);
  check<u32>(flag("setp.lt.s32 %q0, $0, -1;"), cases<i32>(), [](i32 a) { return u32(a < -1); });
  check<u32>(flag("setp.ne.s16 %q0, $0, 0;"), cases<i16>(), [](i16 a) { return u32(a != 0); });
  check<u32>("set.lt.u32.s32", cases<i32, i32>(), [](i32 a, i32 b) { return a < b ? ~0u : 0u; });
}

TEST_CASE("Comparing floats", "[emulator]") {
  floats<float>(".f32", [](float x) { return x; });
  floats<double>(".f64", [](double x) { return x; });
}

TEST_CASE("Comparing floats with subnormals as zeros", "[emulator]") {
  floats<float>(".ftz.f32",
                [](float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; });
}

TEST_CASE("A comparison joined with a predicate", "[emulator]") {
  const auto all = cases<i32, i32, u32>();
  // Both results, in two bits: p = (a < b) OP c, q = !(a < b) OP c.
  const auto ask = [&](const std::string& op, bool negated, auto join) {
    check<u32>("setp.ne.u32 %q2, $2, 0; setp.lt." + op + ".s32 %q0|%q1, $0, $1, " +
                   (negated ? "!" : "") +
                   "%q2;\nselp.u32 %t0, 1, 0, %q0; selp.u32 %t1, 2, 0, %q1; "
                   "or.b32 $d, %t0, %t1;",
               all, [=](i32 a, i32 b, u32 c) {
                 const bool joined = (c != 0) != negated;
                 return u32(bool(join(a < b, joined))) | u32(bool(join(!(a < b), joined))) << 1;
               });
  };
  for (const bool negated : {false, true}) {
    ask("and", negated, [](bool a, bool b) { return a && b; });
    ask("or", negated, [](bool a, bool b) { return a || b; });
    ask("xor", negated, [](bool a, bool b) { return a != b; });
  }
  // One of the results may be thrown away, and p may be c.
  check<u32>(
      "setp.ne.u32 %q0, $2, 0; setp.lt.and.s32 %q0|%q1, $0, $1, %q0;\n"
      "selp.u32 %t0, 1, 0, %q0; selp.u32 %t1, 2, 0, %q1; or.b32 $d, %t0, %t1;",
      all, [](i32 a, i32 b, u32 c) { return u32(a < b && c) | u32(!(a < b) && c) << 1; });
  check<u32>("setp.eq.s32 %q0|%q1, $0, $1; selp.u32 $d, 1, 0, %q1;", cases<i32, i32>(),
             [](i32 a, i32 b) { return u32(a != b); });
}

TEST_CASE("Selecting", "[emulator]") {
  const std::string p = "setp.gt.s32 %q0, $2, 5; ";
  const auto ask = [&]<class T>(const std::string& t, T) {
    check<T>(p + "selp." + t + " $d, $0, $1, %q0;", cases<T, T, i32>(),
             [](T a, T b, i32 c) { return c > 5 ? a : b; });
    check<T>(p + "selp." + t + " $d, $0, $1, !%q0;", cases<T, T, i32>(200),
             [](T a, T b, i32 c) { return c > 5 ? b : a; });
  };
  for (const char* t : {"b16", "u16", "s16"}) ask(t, u16{});
  for (const char* t : {"b32", "u32", "s32"}) ask(t, u32{});
  for (const char* t : {"b64", "u64", "s64"}) ask(t, u64{});
  // A selection keeps every bit of a NaN.
  check_each<float>(
      p + "selp.f32 $d, $0, $1, %q0;", cases<float, float, i32>(),
      [](float d, float a, float b, i32 c) { return bits_of(d) == bits_of(c > 5 ? a : b); });
  check_each<double>(
      p + "selp.f64 $d, $0, $1, %q0;", cases<double, double, i32>(),
      [](double d, double a, double b, i32 c) { return bits_of(d) == bits_of(c > 5 ? a : b); });
  check<i32>("slct.s32.s32", cases<i32, i32, i32>(),
             [](i32 a, i32 b, i32 c) { return c >= 0 ? a : b; });
  check<u32>("slct.u32.f32", cases<u32, u32, float>(),
             [](u32 a, u32 b, float c) { return c >= 0 ? a : b; });
}

TEST_CASE("Moves", "[emulator]") {
  check<u16>("mov.u16", cases<u16>(), [](u16 a) { return a; });
  check<u16>("mov.b16", cases<u16>(), [](u16 a) { return a; });
  check<u32>("mov.u32", cases<u32>(), [](u32 a) { return a; });
  check<u32>("mov.b32", cases<u32>(), [](u32 a) { return a; });
  check<u64>("mov.u64", cases<u64>(), [](u64 a) { return a; });
  check<u64>("mov.b64", cases<u64>(), [](u64 a) { return a; });
  const auto bits = [](auto d, auto a) { return bits_of(d) == bits_of(a); };
  check_each<float>("mov.f32", cases<float>(), bits);
  check_each<double>("mov.f64", cases<double>(), bits);
  check_each<u32>("mov.b32", cases<float>(), bits);
  check_each<double>("mov.b64", cases<u64>(), bits);
  check<i32>("mov.u32 $d, -1;", cases<u32>(20), [](u32) { return -1; });
  check<float>("mov.f32 $d, 0fFF800000;", cases<u32>(20), [](u32) { return -INFINITY; });
  check<double>("mov.f64 $d, 0d4008000000000000;", cases<u32>(20), [](u32) { return 3.0; });
}

TEST_CASE("Registers out of parts, and parts out of registers", "[emulator]") {
  check<u64>("mov.b64 $d, {$0, $1};", cases<u32, u32>(),
             [](u32 a, u32 b) { return u64(b) << 32 | a; });
  check<u32>("mov.b32 $d, {$0, $1};", cases<u16, u16>(),
             [](u16 a, u16 b) { return u32(b) << 16 | a; });
  check<u64>("mov.b64 $d, {$0, $1, $1, $0};", cases<u16, u16>(),
             [](u16 a, u16 b) { return u64(a) << 48 | u64(b) << 32 | u64(b) << 16 | a; });
  check<u64>("mov.b64 $d, {$0, 7};", cases<u32>(), [](u32 a) { return u64(7) << 32 | a; });
  check<u32>("mov.b64 {%t0, $d}, $0;", cases<u64>(), [](u64 a) { return a >> 32; });
  check<u32>("mov.b64 {_, $d}, $0;", cases<u64>(), [](u64 a) { return a >> 32; });
  check<u32>("mov.b64 {$d, %t0}, $0;", cases<double>(), [](double a) { return u32(bits_of(a)); });
  check<u16>("mov.b32 {%s0, $d}, $0;", cases<u32>(), [](u32 a) { return a >> 16; });
  check<u16>("mov.b64 {%s0, %s1, $d, %s2}, $0;", cases<u64>(), [](u64 a) { return u16(a >> 32); });
  // The halves change places though the register is one of the parts.
  check<u64>("mov.b64 {%t0, %t1}, $0; mov.b64 $d, {%t1, %t0};", cases<u64>(),
             [](u64 a) { return a << 32 | a >> 32; });
}
