// Integer arithmetic: PTX ISA 9.0, "Integer Arithmetic Instructions" and "Extended-Precision
// Integer Arithmetic Instructions", against plain C++ in wider types.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

using i128 = __int128;
using u128 = unsigned __int128;

// Every operation of a type, computed in 128 bits.
template <class T>
void basic(const std::string& t) {
  const auto two = cases<T, T>();
  check<T>("add." + t, two, [](T a, T b) { return T(u128(a) + u128(b)); });
  check<T>("sub." + t, two, [](T a, T b) { return T(u128(a) - u128(b)); });
  check<T>("mul.lo." + t, two, [](T a, T b) { return T(u128(i128(a)) * u128(i128(b))); });
  check<T>("mul.hi." + t, two, [](T a, T b) {
    if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>)
      return T((u128(a) * u128(b)) >> 64);
    else
      return T((i128(a) * i128(b)) >> (8 * sizeof(T)));
  });
  check<T>("min." + t, two, [](T a, T b) { return a < b ? a : b; });
  check<T>("max." + t, two, [](T a, T b) { return a > b ? a : b; });
  Cases<T, T> divisible;
  for (const auto& c : two)
    if (std::get<1>(c) != 0) divisible.push_back(c);
  check<T>("div." + t, divisible, [](T a, T b) { return T(i128(a) / i128(b)); });
  check<T>("rem." + t, divisible, [](T a, T b) { return T(i128(a) % i128(b)); });
  const auto three = cases<T, T, T>();
  check<T>("mad.lo." + t, three,
           [](T a, T b, T c) { return T(u128(i128(a)) * u128(i128(b)) + u128(i128(c))); });
  check<T>("mad.hi." + t, three, [](T a, T b, T c) {
    const u128 p = std::is_signed_v<T> ? u128(i128(a) * i128(b)) : u128(a) * u128(b);
    const T high = T(std::is_signed_v<T> ? u128(i128(p) >> (8 * sizeof(T))) : p >> (8 * sizeof(T)));
    return T(u128(i128(high)) + u128(i128(c)));
  });
  check<T>("sad." + t, three, [](T a, T b, T c) {
    const i128 d = i128(a) - i128(b);
    return T(u128(i128(c)) + u128(d < 0 ? -d : d));
  });
  if constexpr (std::is_signed_v<T>) {
    check<T>("neg." + t, cases<T>(), [](T a) { return T(-i128(a)); });
    check<T>("abs." + t, cases<T>(), [](T a) { return T(a < 0 ? -i128(a) : i128(a)); });
  }
}

template <class T, class W>
void wide(const std::string& t) {
  check<W>("mul.wide." + t, cases<T, T>(), [](T a, T b) { return W(i128(a) * i128(b)); });
  check<W>("mad.wide." + t, cases<T, T, W>(),
           [](T a, T b, W c) { return W(u128(i128(a) * i128(b)) + u128(i128(c))); });
}

}  // namespace

TEST_CASE("Integers of 16, 32 and 64 bits", "[emulator]") {
  basic<u32>("u32");
  basic<i32>("s32");
  basic<u64>("u64");
  basic<i64>("s64");
  basic<u16>("u16");
  basic<i16>("s16");
}

TEST_CASE("Wide products", "[emulator]") {
  wide<u16, u32>("u16");
  wide<i16, i32>("s16");
  wide<u32, u64>("u32");
  wide<i32, i64>("s32");
}

TEST_CASE("Operands may be immediates", "[emulator]") {
  check<i32>("add.s32 $d, $0, -5;", cases<i32>(), [](i32 a) { return i32(u32(a) - 5); });
  check<i32>("sub.s32 $d, 7, $0;", cases<i32>(), [](i32 a) { return i32(7u - u32(a)); });
  check<u32>("mul.hi.u32 $d, $0, -858993459;", cases<u32>(),
             [](u32 a) { return u32(u64(a) * 0xcccccccdu >> 32); });
  check<i64>("mul.wide.s32 $d, $0, -12;", cases<i32>(), [](i32 a) { return i64(a) * -12; });
  check<i64>("mad.lo.s64 $d, $0, 0x7fffffffffffffff, -1;", cases<i64>(),
             [](i64 a) { return i64(u64(a) * 0x7fffffffffffffffu - 1); });
  check<i16>("add.s16 $d, $0, -300;", cases<i16>(), [](i16 a) { return i16(a - 300); });
  check<i64>("max.s64 $d, $0, -4294967296;", cases<i64>(),
             [](i64 a) { return a > -4294967296 ? a : -4294967296; });
}

TEST_CASE("Saturating sums", "[emulator]") {
  const auto limit = [](i64 x) {
    return i32(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
  };
  check<i32>("add.sat.s32", cases<i32, i32>(), [=](i32 a, i32 b) { return limit(i64(a) + b); });
  check<i32>("sub.sat.s32", cases<i32, i32>(), [=](i32 a, i32 b) { return limit(i64(a) - b); });
}

TEST_CASE("Two halves side by side", "[emulator]") {
  check<u32>("add.u16x2", cases<u32, u32>(),
             [](u32 a, u32 b) { return ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) << 16); });
}

TEST_CASE("Products of 24 bits", "[emulator]") {
  const auto cut = [](i32 a) { return i64(a & 0xffffff) - (a & 0x800000 ? 0x1000000 : 0); };
  check<u32>("mul24.lo.u32", cases<u32, u32>(),
             [](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff)); });
  check<u32>("mul24.hi.u32", cases<u32, u32>(),
             [](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff) >> 16); });
  check<i32>("mul24.lo.s32", cases<i32, i32>(), [=](i32 a, i32 b) { return i32(cut(a) * cut(b)); });
  check<i32>("mul24.hi.s32", cases<i32, i32>(),
             [=](i32 a, i32 b) { return i32(cut(a) * cut(b) >> 16); });
}

TEST_CASE("Dot products of bytes", "[emulator]") {
  const auto byte = [](u32 x, int i, bool s) {
    return s ? i32(i8(x >> 8 * i)) : i32(u8(x >> 8 * i));
  };
  const auto half = [](u32 x, int i, bool s) {
    return s ? i32(i16(x >> 16 * i)) : i32(u16(x >> 16 * i));
  };
  for (const bool sa : {false, true})
    for (const bool sb : {false, true}) {
      const std::string types = std::string(sa ? ".s32" : ".u32") + (sb ? ".s32" : ".u32");
      check<u32>("dp4a" + types, cases<u32, u32, u32>(), [=](u32 a, u32 b, u32 c) {
        i64 sum = c;
        for (int i = 0; i < 4; ++i) sum += byte(a, i, sa) * byte(b, i, sb);
        return u32(sum);
      });
      for (const bool high : {false, true})
        check<u32>("dp2a" + std::string(high ? ".hi" : ".lo") + types, cases<u32, u32, u32>(),
                   [=](u32 a, u32 b, u32 c) {
                     i64 sum = c;
                     for (int i = 0; i < 2; ++i)
                       sum += i64(half(a, i, sa)) * byte(b, i + 2 * high, sb);
                     return u32(sum);
                   });
    }
}

// 128-bit sums out of 64- and 32-bit parts: the carry goes from instruction to instruction.
TEST_CASE("Chains of carries", "[emulator]") {
  const auto two = cases<u64, u64>();
  const std::string split = "mov.b64 {%t0, %t1}, $0; mov.b64 {%t2, %t3}, $1; ";
  check<u64>(split + "add.cc.u32 %t4, %t0, %t2; addc.u32 %t5, %t1, %t3; mov.b64 $d, {%t4, %t5};",
             two, [](u64 a, u64 b) { return a + b; });
  check<u64>(split + "sub.cc.u32 %t4, %t0, %t2; subc.u32 %t5, %t1, %t3; mov.b64 $d, {%t4, %t5};",
             two, [](u64 a, u64 b) { return a - b; });
  // The carry out of the last part too.
  check<u32>(split + "add.cc.u32 %t4, %t0, %t2; addc.cc.u32 %t5, %t1, %t3; addc.u32 $d, 0, 0;", two,
             [](u64 a, u64 b) { return u32((u128(a) + b) >> 64); });
  check<u32>(split + "sub.cc.u32 %t4, %t0, %t2; subc.cc.u32 %t5, %t1, %t3; subc.u32 $d, 0, 0;", two,
             [](u64 a, u64 b) { return a < b ? ~0u : 0u; });
  // A difference's carry is set where nothing was borrowed: __int128's division reads it by addc.
  check<u32>(split + "sub.cc.u32 %t4, %t0, %t2; subc.cc.u32 %t5, %t1, %t3; addc.u32 $d, 0, 0;", two,
             [](u64 a, u64 b) { return a >= b ? 1u : 0u; });
  check<u64>("add.cc.u64 %u0, $0, $1; addc.u64 $d, 5, 0;", two,
             [](u64 a, u64 b) { return 5 + u64((u128(a) + b) >> 64); });
  check<u64>("sub.cc.s64 %u0, $0, $1; subc.s64 $d, 5, 0;", two,
             [](u64 a, u64 b) { return u64(5 - (a < b)); });
  check<u64>("sub.cc.u64 %u0, $0, $1; subc.cc.u64 %u1, $0, $1; subc.u64 $d, 7, $0;", two,
             [](u64 a, u64 b) { return 7 - a - (a < b); });  // of equal ones nothing was borrowed
  check<u32>("mad.hi.cc.u32 %t0, $0, $1, $1; addc.u32 $d, 0, 0;", cases<u32, u32>(),
             [](u32 a, u32 b) { return u32(((u64(a) * b >> 32) + b) >> 32); });
  // The high 64 bits of a product of 64 bits from products of 32: all the mad forms.
  const std::string product =
      split +
      "mul.lo.u32 %t4, %t0, %t2; mul.hi.u32 %t5, %t0, %t2;\n"
      "mad.lo.cc.u32 %t5, %t0, %t3, %t5; madc.hi.u32 %t6, %t0, %t3, 0;\n"
      "mad.lo.cc.u32 %t5, %t1, %t2, %t5; madc.hi.cc.u32 %t6, %t1, %t2, %t6; addc.u32 %t7, 0, 0;\n"
      "mad.lo.cc.u32 %t6, %t1, %t3, %t6; madc.hi.u32 %t7, %t1, %t3, %t7;\n";
  check<u64>(product + "mov.b64 $d, {%t6, %t7};", two,
             [](u64 a, u64 b) { return u64(u128(a) * b >> 64); });
  check<u64>(product + "mov.b64 $d, {%t4, %t5};", two, [](u64 a, u64 b) { return a * b; });
  check<u64>("mad.lo.cc.u64 %u0, $0, $1, $0; madc.hi.u64 $d, $0, $1, 0;", two,
             [](u64 a, u64 b) { return u64((u128(a) * b + a) >> 64); });
  check<u32>("add.cc.u32 %t0, $0, -1; madc.lo.cc.u32 %t1, $0, $1, $1; addc.u32 $d, 0, 0;",
             cases<u32, u32>(),
             [](u32 a, u32 b) { return u32((u64(u32(a * b)) + b + (a != 0)) >> 32); });
  check<i32>("mad.hi.cc.s32 %t0, $0, $1, $1; addc.s32 $d, 0, 0;", cases<i32, i32>(),
             [](i32 a, i32 b) { return i32((u64(u32(i64(a) * b >> 32)) + u32(b)) >> 32); });
}
