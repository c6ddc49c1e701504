// What lanes do together: PTX ISA 9.0, "shfl.sync", "vote.sync", "match.sync", "redux.sync",
// "elect", "activemask", "bar.warp.sync"; whole warps, diverged ones, and short last warps.
#include <map>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

// A kernel that runs `body` in the lanes of k1[thread]'s bit pattern: member mask %r1, value %r0
// (from k0), result %r2 to k2, and a second one %r3 to k3. Lanes not in the mask of their warp
// leave early.
std::string group_kernel(const std::string& body) {
  return kernel_text(4, R"(
    mad.wide.u32 %l0, %i0, 4, %a0; ld.global.u32 %r0, [%l0];
    mad.wide.u32 %l1, %i0, 4, %a1; ld.global.u32 %r1, [%l1];
    mov.u32 %r2, -77; mov.u32 %r3, -77;
    mov.u32 %r10, %laneid; mov.u32 %r11, 1; shl.b32 %r11, %r11, %r10;
    and.b32 %r12, %r11, %r1; setp.eq.u32 %p15, %r12, 0;
    @%p15 bra OUT;
)" + body + R"(
    OUT:
    mad.wide.u32 %l2, %i0, 4, %a2; st.global.u32 [%l2], %r2;
    mad.wide.u32 %l3, %i0, 4, %a3; st.global.u32 [%l3], %r3;)");
}

// wants(lane, mask, values of the warp, second result*) for lanes of the mask.
template <class F>
void check_group(const std::string& body, F&& wants) {
  Ptx ptx(group_kernel(body));
  std::mt19937_64 g(body.size());
  for (u64 seed = 1; seed <= 12; ++seed) {
    const u32 threads = seed % 3 == 0 ? 75 : 96;  // the last warp has 11 lanes
    std::vector<u32> values, masks;
    for (u32 i = 0; i < threads; ++i) values.push_back(seed % 2 ? u32(g()) : u32(g() % 5) - 2);
    for (u32 w = 0; w < (threads + 31) / 32; ++w) {
      u32 all = threads - 32 * w >= 32 ? ~0u : (1u << (threads - 32 * w)) - 1;
      u32 mask = seed < 4 ? all : u32(g()) & all;
      if (!mask) mask = 1;
      for (u32 l = 0; l < 32 && 32 * w + l < threads; ++l) masks.push_back(mask);
    }
    Array<u32> in(values), member(masks), out(threads, 0), more(threads, 0);
    Launch l;
    l.block = {threads};
    l.seed = seed;
    runs(ptx, l, in, member, out, more);
    for (u32 i = 0; i < threads; ++i) {
      u32 warp[32] = {}, second = u32(-77), first = u32(-77);
      for (u32 j = 0; j < 32 && (i & ~31u) + j < threads; ++j) warp[j] = values[(i & ~31u) + j];
      if (masks[i] >> (i & 31) & 1) first = wants(i & 31, masks[i], warp, &second);
      CAPTURE(i, masks[i]);
      CHECK(out[i] == first);
      CHECK(more[i] == second);
    }
  }
}
template <class F>
void members(u32 mask, F&& f) {
  for (u32 l = 0; l < 32; ++l)
    if (mask >> l & 1) f(l);
}

}  // namespace

TEST_CASE("Shuffles", "[emulator]") {
  struct Case {
    const char* mode;
    u32 b, c;
  };
  for (const Case s : {Case{"bfly", 1, 31},
                       {"bfly", 16, 31},
                       {"bfly", 31, 31},
                       {"bfly", 5, 0x181f},
                       {"up", 1, 0},
                       {"up", 7, 0},
                       {"up", 3, 0x1800},
                       {"down", 1, 31},
                       {"down", 9, 31},
                       {"down", 2, 0x1c1f},
                       {"idx", 0, 31},
                       {"idx", 13, 31},
                       {"idx", 37, 31},
                       {"idx", 2, 0x181f},
                       {"idx", 9, 0x100f}}) {
    const auto source = [=](u32 lane, bool* valid) {
      const u32 segment = s.c >> 8 & 31, clamp = s.c & 31, by = s.b & 31;
      const i32 last = i32((lane & segment) | (clamp & ~segment & 31)), first = i32(lane & segment);
      i32 j = 0;
      const std::string mode = s.mode;
      if (mode == "up") j = i32(lane) - i32(by), *valid = j >= last;
      if (mode == "down") j = i32(lane) + i32(by), *valid = j <= last;
      if (mode == "bfly") j = i32(lane ^ by), *valid = j <= last;
      if (mode == "idx") j = first | i32(by & ~segment), *valid = j <= last;
      return *valid ? u32(j) : lane;
    };
    // Of a lane that is not a member nothing is known: its readers are given a value of their own.
    const std::string b = std::to_string(s.b), c = std::to_string(s.c);
    check_group("shfl.sync." + std::string(s.mode) + ".b32 %r2|%p1, %r0, " + b + ", " + c +
                    ", %r1;\nselp.u32 %r3, 1, 0, %p1;\n"
                    "mov.u32 %r20, " +
                    b + ";\nmov.u32 %r21, %r1;",
                [&](u32 lane, u32 mask, const u32* v, u32* second) {
                  bool valid = false;
                  const u32 from = source(lane, &valid);
                  *second = valid;
                  return mask >> from & 1 ? v[from] : ~0u;
                });
  }
  // Amounts by lane, and no predicate: lane l reads lane 31 - l.
  check_group("sub.u32 %r5, 31, %r10; shfl.sync.idx.b32 %r2, %r0, %r5, 31, %r1;",
              [](u32 lane, u32 mask, const u32* v, u32*) {
                return mask >> (31 - lane) & 1 ? v[31 - lane] : ~0u;
              });
}

TEST_CASE("Votes", "[emulator]") {
  const std::string p = "setp.gt.s32 %p1, %r0, 0;\n";
  const auto yes = [](u32 mask, const u32* v) {
    u32 bits = 0;
    members(mask, [&](u32 l) { bits |= u32(i32(v[l]) > 0) << l; });
    return bits;
  };
  check_group(p + "vote.sync.ballot.b32 %r2, %p1, %r1;",
              [=](u32, u32 mask, const u32* v, u32*) { return yes(mask, v); });
  check_group(p + "vote.sync.ballot.b32 %r2, !%p1, %r1;",
              [=](u32, u32 mask, const u32* v, u32*) { return ~yes(mask, v) & mask; });
  const std::string out = " selp.u32 %r2, 1, 0, %p2;";
  check_group(p + "vote.sync.all.pred %p2, %p1, %r1;" + out,
              [=](u32, u32 mask, const u32* v, u32*) { return u32(yes(mask, v) == mask); });
  check_group(p + "vote.sync.any.pred %p2, %p1, %r1;" + out,
              [=](u32, u32 mask, const u32* v, u32*) { return u32(yes(mask, v) != 0); });
  check_group(p + "vote.sync.uni.pred %p2, %p1, %r1;" + out,
              [=](u32, u32 mask, const u32* v, u32*) {
                return u32(yes(mask, v) == mask || yes(mask, v) == 0);
              });
}

TEST_CASE("Matches", "[emulator]") {
  const auto like = [](u32 lane, u32 mask, const u32* v) {
    u32 bits = 0;
    members(mask, [&](u32 l) { bits |= u32(v[l] == v[lane]) << l; });
    return bits;
  };
  check_group("match.any.sync.b32 %r2, %r0, %r1;",
              [=](u32 lane, u32 mask, const u32* v, u32*) { return like(lane, mask, v); });
  check_group("cvt.u64.u32 %l5, %r0; shl.b64 %l5, %l5, 32; match.any.sync.b64 %r2, %l5, %r1;",
              [=](u32 lane, u32 mask, const u32* v, u32*) { return like(lane, mask, v); });
  // In half of the warps all have the same value.
  check_group(
      "mov.u32 %r5, %warpid; and.b32 %r5, %r5, 1; mul.lo.u32 %r5, %r5, %r0;\n"
      "match.all.sync.b32 %r2|%p1, %r5, %r1; selp.u32 %r3, 1, 0, %p1;\n"
      "mov.u32 %r6, %warpid; and.b32 %r6, %r6, 1; setp.eq.u32 %p2, %r6, 1; @%p2 mov.u32 %r2, "
      "5; @%p2 mov.u32 %r3, 5;\n@!%p2 sub.u32 %r2, %r2, %r1; @!%p2 add.u32 %r2, %r2, 5; "
      "@!%p2 add.u32 %r3, %r3, 4;",
      [](u32, u32, const u32*, u32* second) { return *second = 5; });
  check_group("match.all.sync.b32 %r2|%p1, %r0, %r1; selp.u32 %r3, 1, 0, %p1;",
              [=](u32 lane, u32 mask, const u32* v, u32* second) {
                *second = like(lane, mask, v) == mask;
                return *second ? mask : 0;
              });
}

TEST_CASE("Reductions over a group", "[emulator]") {
  const auto fold = [](const std::string& op, auto f) {
    check_group("redux.sync." + op + " %r2, %r0, %r1;", [=](u32, u32 mask, const u32* v, u32*) {
      bool first = true;
      u32 r = 0;
      members(mask, [&](u32 l) { r = first ? v[l] : u32(f(r, v[l])), first = false; });
      return r;
    });
  };
  fold("add.u32", [](u32 a, u32 b) { return a + b; });
  fold("add.s32", [](u32 a, u32 b) { return a + b; });
  fold("min.u32", [](u32 a, u32 b) { return std::min(a, b); });
  fold("max.u32", [](u32 a, u32 b) { return std::max(a, b); });
  fold("min.s32", [](u32 a, u32 b) { return std::min(i32(a), i32(b)); });
  fold("max.s32", [](u32 a, u32 b) { return std::max(i32(a), i32(b)); });
  fold("and.b32", [](u32 a, u32 b) { return a & b; });
  fold("or.b32", [](u32 a, u32 b) { return a | b; });
  fold("xor.b32", [](u32 a, u32 b) { return a ^ b; });
}

TEST_CASE("Who is here, and who leads", "[emulator]") {
  check_group(
      "activemask.b32 %r2; and.b32 %r5, %r2, %r11; setp.ne.u32 %p1, %r5, 0;\n"
      "not.b32 %r6, %r1; and.b32 %r6, %r6, %r2; setp.eq.and.u32 %p1, %r6, 0, %p1;\n"
      "selp.u32 %r2, 1, 0, %p1;",
      [](u32, u32, const u32*, u32*) { return 1u; });
  check_group("elect.sync %r2|%p1, %r1; selp.u32 %r3, 1, 0, %p1;",
              [](u32 lane, u32 mask, const u32*, u32* second) {
                *second = lane == u32(std::countr_zero(mask));
                return u32(std::countr_zero(mask));
              });
  // Two groups of one warp at the same instruction, each with its mask.
  check_group(
      "setp.lt.u32 %p2, %r10, 9; selp.b32 %r5, 511, -512, %p2; and.b32 %r5, %r5, %r1;\n"
      "elect.sync %r2|%p1, %r5; selp.u32 %r3, 1, 0, %p1;",
      [](u32 lane, u32 mask, const u32*, u32* second) {
        const u32 group = mask & (lane < 9 ? 511u : ~511u);
        *second = lane == u32(std::countr_zero(group));
        return u32(std::countr_zero(group));
      });
  check_group(
      "setp.lt.u32 %p2, %r10, 9; selp.b32 %r5, 511, -512, %p2; and.b32 %r5, %r5, %r1;\n"
      "redux.sync.add.u32 %r2, %r0, %r5; vote.sync.ballot.b32 %r3, %p2, %r5;",
      [](u32 lane, u32 mask, const u32* v, u32* second) {
        const u32 group = mask & (lane < 9 ? 511u : ~511u);
        u32 sum = 0;
        members(group, [&](u32 l) { sum += v[l]; });
        *second = lane < 9 ? group : 0;
        return sum;
      });
}

// Lanes write, meet, and read each other's word, having taken sides before that.
TEST_CASE("bar.warp.sync brings diverged lanes together", "[emulator]") {
  Ptx ptx(".shared .align 4 .b8 words[128];\n" + kernel_text(1, R"(
    mov.u32 %r0, words; mad.lo.u32 %r1, %i3, 4, %r0; setp.lt.u32 %p1, %i3, 13;
    @%p1 bra LESS;
    mul.lo.u32 %r2, %i3, 3; st.shared.u32 [%r1], %r2; bra MEET;
    LESS: mul.lo.u32 %r2, %i3, 5; add.u32 %r2, %r2, 1; st.shared.u32 [%r1], %r2;
    MEET: bar.warp.sync -1;
    xor.b32 %r3, %i3, 31; mad.lo.u32 %r4, %r3, 4, %r0; ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %l0, %i0, 4, %a0; st.global.u32 [%l0], %r5;)"));
  for (u64 seed = 0; seed < 40; ++seed) {
    Array<u32> out(32, 0);
    Launch l;
    l.seed = seed;
    REQUIRE(ptx.run("k", l, out).ok);
    for (u32 i = 0; i < 32; ++i) {
      const u32 other = i ^ 31;
      CHECK(out[i] == (other < 13 ? other * 5 + 1 : other * 3));
    }
  }
}
