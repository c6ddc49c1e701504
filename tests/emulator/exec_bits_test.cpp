// Logic, shifts and bit fields: PTX ISA 9.0, "Logic and Shift Instructions" and those of the
// integer instructions that look at bits. The oracles follow the ISA's pseudocode, bit by bit.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

template <class T>
void logic(const std::string& t) {
  check<T>("and." + t, cases<T, T>(), [](T a, T b) { return a & b; });
  check<T>("or." + t, cases<T, T>(), [](T a, T b) { return a | b; });
  check<T>("xor." + t, cases<T, T>(), [](T a, T b) { return a ^ b; });
  check<T>("not." + t, cases<T>(), [](T a) { return ~a; });
  check<T>("cnot." + t, cases<T>(), [](T a) { return a == 0 ? 1 : 0; });
  check<T>("and." + t + " $d, $0, 12;", cases<T>(), [](T a) { return a & 12; });
  check<T>("xor." + t + " $d, $0, -1;", cases<T>(), [](T a) { return ~a; });
  // The amount is 32 bits wide whatever the type is; more than the width counts as the width.
  const u32 bits = 8 * sizeof(T);
  using S = std::make_signed_t<T>;
  const std::string width = std::to_string(bits);
  check<T>("shl." + t, cases<T, u32>(), [=](T a, u32 n) { return n >= bits ? T(0) : T(a << n); });
  check<T>("shr.b" + width, cases<T, u32>(),
           [=](T a, u32 n) { return n >= bits ? T(0) : T(a >> n); });
  check<T>("shr.u" + width, cases<T, u32>(),
           [=](T a, u32 n) { return n >= bits ? T(0) : T(a >> n); });
  check<S>("shr.s" + width, cases<S, u32>(),
           [=](S a, u32 n) { return n >= bits ? S(a < 0 ? -1 : 0) : S(a >> n); });
  check<T>("shl." + t + " $d, $0, 3;", cases<T>(), [](T a) { return T(a << 3); });
  check<S>("shr.s" + width + " $d, $0, 15;", cases<S>(), [](S a) { return S(a >> 15); });
}

bool bit(u64 x, u32 i) { return x >> i & 1; }

template <class T>
T extracted(T a, u32 b, u32 c) {  // bfe
  const u32 top = 8 * sizeof(T) - 1, at = b & 255, n = c & 255;
  const bool sign = std::is_signed_v<T> && n != 0 && bit(u64(a), std::min(at + n - 1, top));
  u64 d = 0;
  for (u32 i = 0; i <= top; ++i) d |= u64(i < n && at + i <= top ? bit(u64(a), at + i) : sign) << i;
  return T(d);
}
template <class T>
T inserted(T a, T b, u32 c, u32 n) {  // bfi
  u64 f = b;
  const u32 at = c & 255;
  n &= 255;
  for (u32 i = 0; i < n && at + i <= 8 * sizeof(T) - 1; ++i)
    f = (f & ~(u64(1) << (at + i))) | u64(bit(a, i)) << (at + i);
  return T(f);
}
template <class T>
u32 top_bit(T a, bool amount) {  // bfind: the highest bit that is no copy of the sign
  u64 x = std::is_signed_v<T> && a < 0 ? ~u64(i64(a)) : u64(std::make_unsigned_t<T>(a));
  for (i32 i = 8 * sizeof(T) - 1; i >= 0; --i)
    if (bit(x, u32(i))) return amount ? 8 * sizeof(T) - 1 - u32(i) : u32(i);
  return ~0u;
}
template <class T>
void fields(const std::string& width) {
  using S = std::make_signed_t<T>;
  check<T>("bfe.u" + width, cases<T, u32, u32>(), extracted<T>);
  check<S>("bfe.s" + width, cases<S, u32, u32>(), extracted<S>);
  check<T>("bfe.u" + width + " $d, $0, 8, 8;", cases<T>(), [](T a) { return a >> 8 & 255; });
  check<T>("bfi.b" + width, cases<T, T, u32, u32>(), inserted<T>);
  check<T>("bfi.b" + width + " $d, $0, $1, 1, 31;", cases<T, T>(),
           [](T a, T b) { return inserted<T>(a, b, 1, 31); });
  check<u32>("popc.b" + width, cases<T>(), [](T a) { return std::popcount(a); });
  check<u32>("clz.b" + width, cases<T>(), [](T a) { return std::countl_zero(a); });
  check<T>("brev.b" + width, cases<T>(), [](T a) {
    T r = 0;
    for (u32 i = 0; i < 8 * sizeof(T); ++i) r = T(r << 1 | bit(a, i));
    return r;
  });
  check<u32>("bfind.u" + width, cases<T>(), [](T a) { return top_bit<T>(a, false); });
  check<u32>("bfind.s" + width, cases<S>(), [](S a) { return top_bit<S>(a, false); });
  check<u32>("bfind.shiftamt.u" + width, cases<T>(), [](T a) { return top_bit<T>(a, true); });
  check<u32>("bfind.shiftamt.s" + width, cases<S>(), [](S a) { return top_bit<S>(a, true); });
}

u32 picked(u32 a, u32 b,
           const u32 (&bytes)[4]) {  // from the highest, as the ISA's table lists them
  const u64 both = u64(b) << 32 | a;
  u32 d = 0;
  for (const u32 i : bytes) d = d << 8 | u32(both >> 8 * i & 255);
  return d;
}

}  // namespace

TEST_CASE("Logic and shifts", "[emulator]") {
  logic<u16>("b16");
  logic<u32>("b32");
  logic<u64>("b64");
}

TEST_CASE("Bit fields", "[emulator]") {
  fields<u32>("32");
  fields<u64>("64");
}

TEST_CASE("Logic on predicates", "[emulator]") {
  const std::string in = "setp.ne.u32 %q0, $0, 0; setp.ne.u32 %q1, $1, 0;\n";
  const std::string out = " selp.u32 $d, 1, 0, %q2;";
  Cases<u32, u32> all;
  for (u32 i = 0; i < 100; ++i) all.push_back({i & 1, i >> 1 & 1});
  check<u32>(in + "and.pred %q2, %q0, %q1;" + out, all, [](u32 a, u32 b) { return a & b; });
  check<u32>(in + "or.pred %q2, %q0, %q1;" + out, all, [](u32 a, u32 b) { return a | b; });
  check<u32>(in + "xor.pred %q2, %q0, %q1;" + out, all, [](u32 a, u32 b) { return a ^ b; });
  check<u32>(in + "not.pred %q2, %q0;" + out, all, [](u32 a, u32) { return !a; });
  check<u32>(in + "mov.pred %q2, %q1;" + out, all, [](u32, u32 b) { return b; });
  check<u32>(in + "mov.pred %q2, -1;" + out, all, [](u32, u32) { return 1; });
  check<u32>(in + "mov.pred %q2, 0;" + out, all, [](u32, u32) { return 0; });
}

TEST_CASE("Funnel shifts", "[emulator]") {
  const auto all = cases<u32, u32, u32>();
  for (const bool wrap : {false, true}) {
    const std::string mode = wrap ? ".wrap.b32" : ".clamp.b32";
    const auto amount = [=](u32 c) { return wrap ? c & 31 : std::min(c, 32u); };
    check<u32>("shf.l" + mode, all, [=](u32 a, u32 b, u32 c) {
      const u32 n = amount(c);
      return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
    });
    check<u32>("shf.r" + mode, all, [=](u32 a, u32 b, u32 c) {
      const u32 n = amount(c);
      return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
    });
  }
}

TEST_CASE("Bytes picked from two registers", "[emulator]") {
  const auto all = cases<u32, u32, u32>();
  check<u32>("prmt.b32", all, [](u32 a, u32 b, u32 c) {
    const u64 both = u64(b) << 32 | a;
    u32 d = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 pick = c >> 4 * i & 15, byte = u32(both >> 8 * (pick & 7) & 255);
      d |= (pick & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return d;
  });
  check<u32>("prmt.b32 $d, $0, $1, 0x5410;", cases<u32, u32>(),
             [](u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  static constexpr struct {
    const char* mode;
    u32 picks[4][4];
  } kModes[] = {{"f4e", {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}},
                {"b4e", {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}},
                {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
                {"ecl", {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}},
                {"ecr", {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}},
                {"rc16", {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}}};
  for (const auto& m : kModes)
    check<u32>(std::string("prmt.b32.") + m.mode, all,
               [&](u32 a, u32 b, u32 c) { return picked(a, b, m.picks[c & 3]); });
}

TEST_CASE("Any function of three bits", "[emulator]") {
  for (const u32 table : {0x00u, 0xffu, 0x80u, 0x96u, 0xe8u, 0xf8u, 0x1au, 0xcau})
    check<u32>("lop3.b32 $d, $0, $1, $2, " + std::to_string(table) + ";", cases<u32, u32, u32>(500),
               [=](u32 a, u32 b, u32 c) {
                 u32 d = 0;
                 for (u32 i = 0; i < 32; ++i)
                   d |= u32(bit(table, bit(a, i) * 4u + bit(b, i) * 2u + bit(c, i))) << i;
                 return d;
               });
}

TEST_CASE("Masks of bits, and the n-th set one", "[emulator]") {
  check<u32>("bmsk.clamp.b32", cases<u32, u32>(), [](u32 a, u32 b) {
    u32 d = 0;
    for (u32 i = 0; i < 32; ++i) d |= u32(i >= a && i - a < b) << i;
    return d;
  });
  check<u32>("bmsk.wrap.b32", cases<u32, u32>(), [](u32 a, u32 b) {
    u32 d = 0;
    for (u32 i = 0; i < 32; ++i) d |= u32(i >= (a & 31) && i - (a & 31) < (b & 31)) << i;
    return d;
  });
  Cases<u32, u32, i32> all;
  for (const auto& [mask, base, n] : cases<u32, u32, i32>()) all.push_back({mask, base & 31, n});
  check<u32>("fns.b32", all, [](u32 mask, u32 base, i32 offset) {
    if (offset == 0) return bit(mask, base) ? base : ~0u;
    i64 count = (offset < 0 ? -i64(offset) : i64(offset)) - 1;
    for (i32 at = i32(base); at >= 0 && at<32; at += offset> 0 ? 1 : -1)
      if (bit(mask, u32(at)) && count-- == 0) return u32(at);
    return ~0u;
  });
}
