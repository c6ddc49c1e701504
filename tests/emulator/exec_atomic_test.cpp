// atom and red: PTX ISA 9.0, "Parallel Synchronization and Communication Instructions: atom, red".
#include <algorithm>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

// One thread: old and new value of a word for each operand, so that the whole function is seen.
template <class T, class F>
void check_word(const std::string& op, const std::string& type, F&& f) {
  const std::string t = PtxType<T>::mem, reg = PtxType<T>::reg, size = std::to_string(sizeof(T));
  for (const std::string space : {".global", ""}) {
    Ptx ptx(kernel_text(4, ".reg ." + reg +
                               " %x, %old; .reg .pred %over;\n"
                               "mad.wide.u32 %l0, %i0, " +
                               size + ", %a0; mad.wide.u32 %l1, %i0, " + size +
                               ", %a1;\nmad.wide.u32 %l2, %i0, " + size +
                               ", %a2; mad.wide.u32 %l3, %i0, " + size + ", %a3;\nld.global." + t +
                               " %x, [%l1];\natom" + space + "." + op + "." + type +
                               " %old, [%l0], %x;\nst.global." + t + " [%l2], %old;\nred" + space +
                               "." + (op == "exch" ? "or" : op) + "." + type + " [%l3], %x;"));
    const auto pairs = cases<T, T>(300);
    std::vector<T> words, operands;
    for (const auto& [w, x] : pairs) words.push_back(w), operands.push_back(x);
    while (words.size() % 64) words.push_back(T(1)), operands.push_back(T(2));
    Array<T> memory(words), in(operands), old(words.size(), T(0)), reduced(words);
    Launch l;
    l.block = {64};
    l.grid = {u32(words.size() / 64)};
    runs(ptx, l, memory, in, old, reduced);
    for (size_t i = 0; i < words.size(); ++i) {
      CAPTURE(shown(words[i]), shown(operands[i]));
      REQUIRE(bits_of(old[i]) == bits_of(words[i]));
      REQUIRE(same(memory[i], T(f(words[i], operands[i]))));
      if (op != "exch") REQUIRE(same(reduced[i], T(f(words[i], operands[i]))));
    }
  }
}

}  // namespace

TEST_CASE("What an atomic does to a word", "[emulator]") {
  const auto sum = [](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_floating_point_v<T>)
      return T(a + b);
    else
      return T(u64(a) + u64(b));
  };
  check_word<u32>("add", "u32", sum);
  check_word<i32>("add", "s32", sum);
  check_word<u64>("add", "u64", sum);
  check_word<float>("add", "f32", sum);
  check_word<double>("add", "f64", sum);
  check_word<u32>("min", "u32", [](u32 a, u32 b) { return std::min(a, b); });
  check_word<u32>("max", "u32", [](u32 a, u32 b) { return std::max(a, b); });
  check_word<i32>("min", "s32", [](i32 a, i32 b) { return std::min(a, b); });
  check_word<i32>("max", "s32", [](i32 a, i32 b) { return std::max(a, b); });
  check_word<u64>("max", "u64", [](u64 a, u64 b) { return std::max(a, b); });
  check_word<i64>("min", "s64", [](i64 a, i64 b) { return std::min(a, b); });
  check_word<u32>("and", "b32", [](u32 a, u32 b) { return a & b; });
  check_word<u32>("or", "b32", [](u32 a, u32 b) { return a | b; });
  check_word<u32>("xor", "b32", [](u32 a, u32 b) { return a ^ b; });
  check_word<u64>("and", "b64", [](u64 a, u64 b) { return a & b; });
  check_word<u64>("or", "b64", [](u64 a, u64 b) { return a | b; });
  check_word<u32>("inc", "u32", [](u32 a, u32 b) { return a >= b ? 0 : a + 1; });
  check_word<u32>("dec", "u32", [](u32 a, u32 b) { return a == 0 || a > b ? b : a - 1; });
  check_word<u32>("exch", "b32", [](u32, u32 b) { return b; });
  check_word<u64>("exch", "b64", [](u64, u64 b) { return b; });
}

TEST_CASE("Compare and swap", "[emulator]") {
  const auto ask = []<class T>(const std::string& type, T) {
    const std::string reg = PtxType<T>::reg, t = PtxType<T>::mem, size = std::to_string(sizeof(T));
    Ptx ptx(kernel_text(2, ".reg ." + reg + " %x, %y, %old;\nmad.wide.u32 %l0, %i0, " + size +
                               ", %a0; mad.wide.u32 %l1, %i0, " + size + ", %a1; ld.global." + t +
                               " %x, [%l1];\nmov." + reg + " %y, 99; atom.global.cas." + type +
                               " %old, [%l0], %x, %y; st.global." + t + " [%l1], %old;"));
    Array<T> memory(64, T(0)), in(64, T(0));
    for (u32 i = 0; i < 64; ++i) memory[i] = T(i), in[i] = T(i % 3 ? i : i + 1);
    Launch l;
    l.block = {64};
    runs(ptx, l, memory, in);
    for (u32 i = 0; i < 64; ++i) {
      CHECK(memory[i] == T(i % 3 ? 99 : i));
      CHECK(in[i] == T(i));
    }
  };
  ask("b16", u16{});
  ask("b32", u32{});
  ask("b64", u64{});
}

TEST_CASE("All threads on one word", "[emulator]") {
  // Each gets another old value; guards leave out lanes; immediates are operands too.
  Ptx ptx(kernel_text(2, R"(
    and.b32 %r1, %i0, 1; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, 4294967295;
    @%p0 atom.global.add.u32 %r2, [%a0], 1;
    mad.wide.u32 %l0, %i0, 4, %a1; st.global.u32 [%l0], %r2;
    red.global.max.s32 [%a0+4], %i0; red.global.add.f32 [%a0+8], 0f3F800000;
    red.relaxed.gpu.global.add.u64 [%a0+16], 3; atom.global.inc.u32 %r3, [%a0+12], 6;)"));
  for (u64 seed = 0; seed < 8; ++seed) {
    Array<u32> word(6, 0), out(300, 0);
    Launch l;
    l.grid = {3};
    l.block = {100};
    l.seed = seed;
    const Outcome o = runs(ptx, l, word, out);
    CHECK(word[0] == 150);
    CHECK(word[1] == 299);
    CHECK(f32(word[2]) == 300.f);
    CHECK(word[3] == 300 % 7);
    CHECK(word[4] == 900);
    std::vector<u32> olds;
    for (u32 i = 0; i < 300; ++i) {
      if (i % 2)
        CHECK(out[i] == ~0u);
      else
        olds.push_back(out[i]);
    }
    std::sort(olds.begin(), olds.end());
    for (u32 i = 0; i < 150; ++i) CHECK(olds[i] == i);
    CHECK(o.counts.atomics > 0);
  }
}

TEST_CASE("Scopes and orders, in shared memory and by generic addresses", "[emulator]") {
  Ptx ptx(".shared .align 8 .b8 s[16];\n" + kernel_text(1, R"(
    setp.eq.u32 %p0, %i3, 0; mov.u64 %l0, 0; @%p0 st.shared.v2.u64 [s], {%l0, %l0}; bar.sync 0;
    mov.f64 %g0, 0d3FE0000000000000; atom.shared.add.f64 %g1, [s], %g0;
    mov.u32 %r0, s; add.u32 %r0, %r0, 8; atom.shared.cta.add.u32 %r1, [%r0], 2;
    cvt.u64.u32 %l1, %r0; cvta.shared.u64 %l2, %l1; atom.add.release.gpu.u32 %r2, [%l2+4], 3;
    atom.global.sys.add.u32 %r3, [%a0+16], 1; mov.b32 %r6, 0x3c003800;
    atom.add.noftz.f16x2 %r4, [%a0+20], %r6;
    atom.acq_rel.gpu.global.add.u32 %r5, [%a0+24], %i3;
    bar.sync 0; ld.shared.v2.u64 {%l3, %l4}, [s]; @%p0 st.global.v2.u64 [%a0], {%l3, %l4};)"));
  for (u64 seed = 0; seed < 4; ++seed) {
    Array<u32> out(8, 0);
    Launch l;
    l.block = {64};
    l.seed = seed;
    runs(ptx, l, out);
    CHECK(f64(u64(out[1]) << 32 | out[0]) == 32);
    CHECK(out[2] == 128);
    CHECK(out[3] == 192);
    CHECK(out[4] == 64);
    CHECK(out[5] == 0x54005000);  // 64 and 32
    CHECK(out[6] == 64 * 63 / 2);
  }
}

TEST_CASE("Sums of halves", "[emulator]") {
  Ptx ptx(kernel_text(1, R"(
    mov.b16 %h0, 0x3c00; mov.b32 %r0, 0x40003c00; mov.b32 %r1, 0x40003f80; mov.b16 %h1, 0x3f80;
    red.global.add.noftz.f16 [%a0], %h0; red.global.add.noftz.bf16 [%a0+2], %h1;
    atom.global.add.noftz.f16x2 %r2, [%a0+4], %r0; red.global.add.noftz.bf16x2 [%a0+8], %r1;)"));
  Array<u16> memory(6, 0);
  REQUIRE(ptx.run("k", {}, memory).ok);
  CHECK(memory[0] == 0x5000);  // 32
  CHECK(memory[1] == 0x4200);
  CHECK(memory[2] == 0x5000);
  CHECK(memory[3] == 0x5400);  // 64
  CHECK(memory[4] == 0x4200);
  CHECK(memory[5] == 0x4280);
}
