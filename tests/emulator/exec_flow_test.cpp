// Control flow: divergence, loops, nested branches, calls, barriers of the block and their votes.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

// The kernel's results for each thread, under several seeds.
template <class F>
void check_threads(Ptx& ptx, Launch l, F&& wants, u32 seeds = 20) {
  const u32 n = u32(l.grid.count() * l.block.count());
  for (u64 seed = 0; seed < seeds; ++seed) {
    Array<u32> out(n, 0xeeeeeeee);
    l.seed = seed;
    runs(ptx, l, out);
    for (u32 i = 0; i < n; ++i) {
      CAPTURE(i);
      REQUIRE(out[i] == wants(i));
    }
  }
}
const std::string kStore = "mad.wide.u32 %l20, %i0, 4, %a0; st.global.u32 [%l20], %r0;";

}  // namespace

TEST_CASE("Loops of unlike lengths with branches inside", "[emulator]") {
  // Steps of Collatz's sequence, which no two lanes take alike.
  Ptx ptx(kernel_text(1, R"(
    add.u32 %r1, %i0, 1; mov.u32 %r0, 0;
    AGAIN: setp.eq.u32 %p0, %r1, 1; @%p0 bra DONE;
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; @%p1 bra ODD;
    shr.u32 %r1, %r1, 1; bra.uni COUNT;
    ODD: mad.lo.u32 %r1, %r1, 3, 1;
    COUNT: add.u32 %r0, %r0, 1; bra AGAIN;
    DONE: )" + kStore));
  Launch l;
  l.grid = {3};
  l.block = {71};
  check_threads(ptx, l, [](u32 i) {
    u32 steps = 0;
    for (u32 x = i + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2) ++steps;
    return steps;
  });
}

TEST_CASE("Nested branches, guards and early exits", "[emulator]") {
  Ptx ptx(kernel_text(1, R"(
    mov.u32 %r0, 1; and.b32 %r1, %i0, 3; and.b32 %r2, %i0, 12;
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 1; setp.lt.u32 %p2, %r2, 8; setp.eq.u32 %p3, %r2, 4;
    @!%p0 bra NOT0;
    @%p2 bra LOW; add.u32 %r0, %r0, 100; bra IN; LOW: @%p3 add.u32 %r0, %r0, 1000; add.u32 %r0, %r0, 7;
    IN: mul.lo.u32 %r0, %r0, 3; bra OUT;
    NOT0: @%p1 bra ONE; @%p3 exit; mul.lo.u32 %r0, %r0, 5; @!%p2 bra OUT; add.u32 %r0, %r0, 2; bra OUT;
    ONE: @%p3 ret; add.u32 %r0, %r0, %i0;
    OUT: )" + kStore));
  Launch l;
  l.block = {90};
  check_threads(ptx, l, [](u32 i) {
    const u32 a = i & 3, b = i & 12;
    u32 x = 1;
    if (a == 0) {
      if (b < 8)
        x += (b == 4 ? 1000 : 0) + 7;
      else
        x += 100;
      return x * 3;
    }
    if (b == 4) return 0xeeeeeeee;
    if (a == 1) return x + i;
    return x * 5 + (b < 8 ? 2 : 0);
  });
}

TEST_CASE("Calls", "[emulator]") {
  Ptx ptx(R"(
.func (.param .b32 sum) add_up(.param .b32 n)
{
.reg .pred %p<2>; .reg .b32 %r<5>;
ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP; st.param.b32 [sum+0], 1000; ret;
LOOP: add.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, 1; setp.gt.s32 %p1, %r1, 0; @%p1 bra LOOP;
st.param.b32 [sum+0], %r2;
ret;
}
.func (.param .align 8 .b8 both[16]) pair(.param .f64 x, .param .b32 n)
{
.reg .f64 %g<4>; .reg .b32 %r<5>; .local .align 8 .b8 room[16];
ld.param.f64 %g1, [x]; ld.param.b32 %r1, [n];
st.local.u32 [room], %r1;
{ .reg .b32 t; .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 r0;
call.uni (r0), add_up, (p0); ld.param.b32 %r2, [r0+0]; }
ld.local.u32 %r3, [room]; add.u32 %r2, %r2, %r3; cvt.rn.f64.u32 %g2, %r2; add.f64 %g1, %g1, %g1;
st.param.f64 [both], %g1; st.param.f64 [both+8], %g2;
ret;
}
)" + kernel_text(1, R"(
    and.b32 %r1, %i0, 7; setp.lt.u32 %p0, %r1, 6; cvt.rn.f64.u32 %g0, %i0; mov.u32 %r0, 3;
    @!%p0 bra SKIP;
    { .param .b64 p0; .param .b32 p1; .param .align 8 .b8 r[16];
    st.param.f64 [p0+0], %g0; st.param.b32 [p1+0], %r1;
    call.uni (r), pair, (p0, p1); ld.param.f64 %g1, [r]; ld.param.f64 %g2, [r+8]; }
    add.f64 %g1, %g1, %g2; cvt.rzi.u32.f64 %r0, %g1;
    SKIP:
    { .param .b32 p0; .param .b32 r0; st.param.b32 [p0+0], %r1; @%p0 call (r0), add_up, (p0);
    @!%p0 bra NONE; ld.param.b32 %r2, [r0+0]; add.u32 %r0, %r0, %r2; }
    NONE:
    )" + kStore));
  Launch l;
  l.block = {80};
  check_threads(ptx, l, [](u32 i) {
    const u32 n = i & 7, sum = n ? n * (n + 1) / 2 : 1000;
    return n < 6 ? 2 * i + sum + n + sum : 3;
  });
}

TEST_CASE("Barriers order what warps write", "[emulator]") {
  // A tree of sums in shared memory, a barrier after each level.
  Ptx ptx(".shared .align 4 .b8 s[1024];\n" + kernel_text(1, R"(
    mov.u32 %r1, s; mad.lo.u32 %r2, %i3, 4, %r1; add.u32 %r3, %i3, 5; st.shared.u32 [%r2], %r3;
    bar.sync 0; mov.u32 %r4, 128;
    LEVEL: setp.lt.u32 %p0, %i3, %r4; @!%p0 bra MEET;
    mad.lo.u32 %r5, %r4, 4, %r2; ld.shared.u32 %r6, [%r5]; ld.shared.u32 %r7, [%r2];
    add.u32 %r7, %r7, %r6; st.shared.u32 [%r2], %r7;
    MEET: bar.sync 0; shr.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra LEVEL;
    ld.shared.u32 %r0, [%r1];
    )" + kStore));
  Launch l;
  l.grid = {3};
  l.block = {256};
  check_threads(ptx, l, [](u32) { return 256u * 255 / 2 + 5 * 256; });
}

TEST_CASE("Barriers that vote", "[emulator]") {
  Ptx ptx(kernel_text(1, R"(
    and.b32 %r1, %i3, 3; setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %i3, 1000;
    bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p0;
    bar.red.and.pred %p4, 0, %p0; bar.red.or.pred %p5, 0, !%p1; bar.red.popc.u32 %r2, 0, !%p0;
    selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 10000, 0, %p3; selp.u32 %r5, 500, 0, %p4;
    selp.u32 %r6, 700, 0, %p5; add.u32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4; add.u32 %r0, %r0, %r5;
    add.u32 %r0, %r0, %r6; mad.lo.u32 %r0, %r2, 100000, %r0;
    )" + kStore));
  Launch l;
  l.block = {100};
  check_threads(ptx, l, [](u32) { return 25u + 1000 + 10000 + 75 * 100000; });
}

TEST_CASE("Threads that left are waited for no longer", "[emulator]") {
  Ptx ptx(".shared .align 4 .b8 s[512];\n" + kernel_text(1, R"(
    setp.ge.u32 %p0, %i3, 70; @%p0 ret;
    mov.u32 %r1, s; mad.lo.u32 %r2, %i3, 4, %r1; st.shared.u32 [%r2], %i3; bar.sync 0;
    sub.u32 %r3, 69, %i3; mad.lo.u32 %r4, %r3, 4, %r1; ld.shared.u32 %r0, [%r4];
    )" + kStore));
  Launch l;
  l.block = {128};
  check_threads(ptx, l, [](u32 i) { return i < 70 ? 69 - i : 0xeeeeeeee; });
}

TEST_CASE("Named barriers of some warps", "[emulator]") {
  // Warps 0 and 1 hand over to 2 and 3, who wait; the givers only arrive.
  Ptx ptx(".shared .align 4 .b8 s[512];\n" + kernel_text(1, R"(
    mov.u32 %r1, s; and.b32 %r2, %i3, 63; mad.lo.u32 %r3, %r2, 4, %r1; mov.u32 %r0, 9;
    setp.ge.u32 %p0, %i3, 64; @%p0 bra TAKE;
    mul.lo.u32 %r4, %i3, 7; st.shared.u32 [%r3], %r4; bar.arrive 3, 128; bra OUT;
    TAKE: bar.sync 3, 128; ld.shared.u32 %r0, [%r3]; barrier.sync 5, 64;
    OUT: )" + kStore));
  Launch l;
  l.block = {128};
  check_threads(ptx, l, [](u32 i) { return i < 64 ? 9 : (i - 64) * 7; });
}

TEST_CASE("A count of a short last warp is that of a whole one", "[emulator]") {
  Ptx ptx(kernel_text(1, "bar.sync 2, 64; mov.u32 %r0, 4;" + kStore));
  Launch l;
  l.block = {40};
  check_threads(ptx, l, [](u32) { return 4u; });
}

TEST_CASE("Diverged lanes arrive one group after the other", "[emulator]") {
  Ptx ptx(kernel_text(1, R"(
    and.b32 %r1, %i3, 1; setp.eq.u32 %p0, %r1, 0; mov.u32 %r0, 1; @%p0 bra EVEN;
    mov.u32 %r0, 2; barrier.sync 0; bra OUT;
    EVEN: barrier.sync 0;
    OUT: )" + kStore));
  Launch l;
  l.block = {64};
  check_threads(ptx, l, [](u32 i) { return i % 2 + 1; });
}

TEST_CASE("A lane that waits for another of its warp gets what it waits for", "[emulator]") {
  // A lock taken in a loop, whose holder leaves the loop before it gives the lock back.
  Ptx ptx(kernel_text(2, R"(
    TRY: atom.global.cas.b32 %r1, [%a1], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra TRY;
    ld.volatile.global.u32 %r2, [%a1+4]; add.u32 %r3, %r2, 1; st.volatile.global.u32 [%a1+4], %r3;
    membar.gl; atom.global.exch.b32 %r4, [%a1], 0;
    mad.wide.u32 %l0, %i0, 4, %a0; st.global.u32 [%l0], %r3;)"));
  for (u64 seed = 0; seed < 5; ++seed) {
    Array<u32> out(128, 0), lock(2, 0);
    Launch l;
    l.grid = {2};
    l.block = {64};
    l.seed = seed;
    REQUIRE(ptx.run("k", l, out, lock).ok);
    CHECK(lock[1] == 128);
  }
}

TEST_CASE("A guarded result is alive round the loop", "[emulator]") {
  std::string body =
      "mov.u32 %r0, 0; mov.u32 %r1, 3; mov.u32 %r3, 0; and.b32 %r4, %i0, 7;\nL:\n"
      "setp.eq.u32 %p0, %r3, %r4; @%p0 mov.u32 %r1, 1000; add.u32 %r0, %r0, %r1;\n";
  for (u32 i = 10; i < 20; ++i) {
    const std::string r = "%r" + std::to_string(i);
    body += "mul.lo.u32 " + r + ", %r0, 5; xor.b32 %r0, %r0, " + r + ";\n";
  }
  Ptx ptx(kernel_text(
      1, body + "add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 12; @%p1 bra L;\n" + kStore));
  check_threads(ptx, {}, [](u32 i) {
    u32 sum = 0;
    for (u32 t = 0; t < 12; ++t) {
      sum += t >= (i & 7) ? 1000 : 3;
      for (u32 j = 10; j < 20; ++j) sum ^= sum * 5;
    }
    return sum;
  });
}

TEST_CASE("Registers that share a place do not meet in loops", "[emulator]") {
  // %r1 lives round the loop; the many others are alive for a moment each.
  std::string body = "mov.u32 %r0, 0; mov.u32 %r1, 3; add.u32 %r2, %i0, 1; mov.u32 %r3, 0;\nL:\n";
  for (u32 i = 10; i < 40; ++i)
    body += "mad.lo.u32 %r" + std::to_string(i) + ", %r3, " + std::to_string(i) +
            ", %i0; add.u32 %r0, %r0, %r" + std::to_string(i) + ";\n";
  body +=
      "nanosleep.u32 %r1; add.u32 %r0, %r0, %r1; mov.u32 %r50, %r0; xor.b32 %r0, %r50, 1;\n"
      "add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, %r2; @%p0 bra L;\n";
  Ptx ptx(kernel_text(1, body + kStore));
  Launch l;
  check_threads(ptx, l, [](u32 i) {
    u32 sum = 0;
    for (u32 t = 0; t < i + 1; ++t) {
      for (u32 j = 10; j < 40; ++j) sum += t * j + i;
      sum = (sum + 3) ^ 1;
    }
    return sum;
  });
}
