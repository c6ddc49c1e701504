// cp.async and mbarrier, and what has no result but effects: printf and assert.
#include <unistd.h>

#include <cstdio>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

// What a launch prints. The interpreter writes to stdout by its number, as a program's own printf.
template <class F>
std::string printed(F&& launch) {
  std::fflush(stdout);
  std::FILE* file = std::tmpfile();
  const int before = dup(1);
  dup2(fileno(file), 1);
  launch();
  std::fflush(stdout);
  dup2(before, 1);
  close(before);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += char(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("Copies are there when they were waited for, and not before", "[emulator]") {
  // Two groups: after wait_group 1 the first is there, after wait_all the second.
  Ptx ptx(".shared .align 16 .b8 s[2048];\n" + kernel_text(2, R"(
    mov.u32 %r0, s; mad.lo.u32 %r1, %i3, 32, %r0; mad.wide.u32 %l0, %i0, 32, %a0;
    cp.async.ca.shared.global [%r1], [%l0], 8; cp.async.commit_group;
    cp.async.cg.shared.global [%r1+16], [%l0+16], 16; cp.async.ca.shared.global [%r1+8], [%l0+8], 4;
    ld.shared.u32 %r2, [%r1]; cp.async.commit_group; cp.async.wait_group 1;
    ld.shared.u32 %r3, [%r1+4]; ld.shared.u32 %r4, [%r1+28]; cp.async.wait_all; bar.sync 0;
    xor.b32 %r10, %i3, 63; mad.lo.u32 %r11, %r10, 32, %r0; ld.shared.u32 %r5, [%r11+28];
    ld.shared.u32 %r6, [%r1+8];
    mad.wide.u32 %l1, %i0, 32, %a1; st.global.v4.u32 [%l1], {%r2, %r3, %r4, %r5};
    st.global.u32 [%l1+16], %r6;)"));
  Array<u32> in(64 * 8, 0), out(64 * 8, 0);
  for (u32 i = 0; i < in.size(); ++i) in[i] = 1000 + i;
  Launch l;
  l.block = {64};
  runs(ptx, l, in, out);
  for (u32 i = 0; i < 64; ++i) {
    CHECK(out[8 * i] == ~0u);  // not to be read yet
    CHECK(out[8 * i + 1] == in[8 * i + 1]);
    CHECK(out[8 * i + 2] == ~0u);
    CHECK(out[8 * i + 3] == in[8 * (i ^ 63) + 7]);
    CHECK(out[8 * i + 4] == in[8 * i + 2]);
  }
}

TEST_CASE("A copy of fewer bytes is filled with zeros", "[emulator]") {
  Ptx ptx(".shared .align 16 .b8 s[512];\n" + kernel_text(2, R"(
    mov.u32 %r0, s; mad.lo.u32 %r1, %i3, 16, %r0; mad.wide.u32 %l0, %i0, 16, %a0;
    and.b32 %r2, %i3, 15; setp.eq.u32 %p0, %r2, 0; @%p0 mov.u64 %l0, 0;
    cp.async.cg.shared.global [%r1], [%l0], 16, %r2; cp.async.wait_all;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; mad.wide.u32 %l1, %i0, 16, %a1;
    st.global.v4.u32 [%l1], {%r4, %r5, %r6, %r7};)"));
  Array<u8> in(512, 0), out(512, 1);
  for (u32 i = 0; i < 512; ++i) in[i] = u8(i * 7 + 1);
  runs(ptx, {}, in, out);
  for (u32 i = 0; i < 512; ++i) CHECK(out[i] == (i % 16 < i / 16 % 16 ? in[i] : 0));
  // What is not read may lie behind the end, what is may not.
  Array<u8> until(512 - 1, 0), before(512 - 2, 0);
  for (u32 i = 0; i < 511; ++i) until[i] = in[i];
  runs(ptx, {}, until, out);
  for (u32 i = 0; i < 512; ++i) CHECK(out[i] == (i % 16 < i / 16 % 16 ? in[i] : 0));
  const Outcome far = ptx.run("k", {}, before, out);
  CHECK(!far.ok);
  CHECK(int(far.fault.kind) == int(Fault::illegal_address));
  CHECK(far.fault.thread[0] == 31);
}

TEST_CASE("Copies out of bounds or misaligned", "[emulator]") {
  const auto text = [](const char* bytes) {
    return ".shared .align 16 .b8 s[512];\n" + kernel_text(1, R"(
    mov.u32 %r0, s; mad.lo.u32 %r1, %i3, 16, %r0; mad.wide.u32 %l0, %i0, 16, %a0;
    cp.async.ca.shared.global [%r1], [%l0+4], )" + std::string(bytes) +
                                                                  "; cp.async.wait_all;");
  };
  Ptx eight(text("8")), four(text("4"));
  Array<u32> in(4 * 20, 1);
  const Outcome bad = eight.run("k", {}, in);
  CHECK(!bad.ok);
  CHECK(int(bad.fault.kind) == int(Fault::misaligned));
  const Outcome far = four.run("k", {}, in);
  CHECK(!far.ok);
  CHECK(int(far.fault.kind) == int(Fault::illegal_address));
  CHECK(far.fault.thread[0] == 20);
}

TEST_CASE("An mbarrier's phases", "[emulator]") {
  // Three rounds: all arrive, then wait for the phase; the second by parity.
  Ptx ptx(".shared .align 8 .b8 bar[8];\n.shared .align 4 .b8 s[384];\n" + kernel_text(1, R"(
    setp.ne.u32 %p0, %i3, 0; @%p0 bra READY; mbarrier.init.shared.b64 [bar], 96; READY: bar.sync 0;
    mov.u32 %r0, s; mad.lo.u32 %r1, %i3, 4, %r0; sub.u32 %r2, 95, %i3; mad.lo.u32 %r3, %r2, 4, %r0;
    st.shared.u32 [%r1], %i3; mbarrier.arrive.shared.b64 %l0, [bar];
    W1: mbarrier.test_wait.shared.b64 %p1, [bar], %l0; @!%p1 bra W1;
    ld.shared.u32 %r4, [%r3];
    mbarrier.arrive.shared.b64 _, [bar];
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1; @!%p1 bra W2;
    add.u32 %r5, %r4, 1000; st.shared.u32 [%r1], %r5; mbarrier.arrive.shared.b64 %l0, [bar];
    W3: mbarrier.test_wait.shared.b64 %p1, [bar], %l0; @!%p1 bra W3;
    ld.shared.u32 %r6, [%r3]; mad.wide.u32 %l1, %i0, 4, %a0; st.global.u32 [%l1], %r6;)"));
  for (u64 seed = 0; seed < 20; ++seed) {
    Array<u32> out(96, 0);
    Launch l;
    l.block = {96};
    l.seed = seed;
    runs(ptx, l, out);
    for (u32 i = 0; i < 96; ++i) CHECK(out[i] == 1000 + i);  // mirrored twice
  }
}

TEST_CASE("printf prints what the host's would", "[emulator]") {
  Ptx ptx(R"(
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[64];
.global .align 1 .b8 word[4];
)" + kernel_text(1, R"(
    .local .align 8 .b8 depot[88];
    setp.ne.u32 %p0, %i3, 3; @%p0 bra OUT;
    mov.u64 %l0, depot; cvta.local.u64 %l1, %l0; mov.u32 %r0, -7; st.local.u32 [%l0], %r0;
    mov.u32 %r0, 42; st.local.u32 [%l0+4], %r0; mov.u32 %r0, 255; st.local.u32 [%l0+8], %r0;
    mov.u32 %r0, 65; st.local.u32 [%l0+12], %r0; mov.u64 %l2, word; cvta.global.u64 %l3, %l2;
    st.local.u64 [%l0+16], %l3; mov.f64 %g0, 0d400921FB54442D18; st.local.f64 [%l0+24], %g0;
    mov.u64 %l4, -5000000000; st.local.u64 [%l0+32], %l4; st.local.u64 [%l0+40], %l3;
    mov.u64 %l4, 4660; st.local.u64 [%l0+48], %l4; mov.u32 %r0, 4; st.local.u32 [%l0+56], %r0;
    mov.u32 %r0, 9; st.local.u32 [%l0+60], %r0;
    mov.u64 %l5, text; cvta.global.u64 %l6, %l5;
    { .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0+0], %l6; st.param.b64 [p1+0], %l1;
    call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r1, [r0+0]; }
    st.global.u32 [%a0], %r1;
    OUT:)"));
  std::vector<u8> bytes(64, 0);
  const std::string plain = "%d|%5u|%-4x|%c|%s|%6.2f|%lld|%5s|%%|%p|%*d\n";
  std::memcpy(bytes.data(), plain.data(), plain.size());
  Array<u8> text(bytes), word(std::vector<u8>{'a', 'b', 'c', 0});
  ptx.set_symbol("text", text.address());
  ptx.set_symbol("word", word.address());
  Array<u32> out(1, 0);
  Outcome o;
  const std::string got = printed([&] { o = ptx.run("k", {}, out); });
  INFO(o.fault.what << o.fault.ptx);
  REQUIRE(o.ok);
  CHECK(got == "-7|   42|ff  |A|abc|  3.14|-5000000000|  abc|%|0x1234|   9\n");
  CHECK(
      (out[0] == 10 || out[0] == 11));  // arguments, not bytes; whether a width is one is not said
}

TEST_CASE("A failed assertion says where", "[emulator]") {
  Ptx ptx(R"(
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 text[4];
)" + kernel_text(1, R"(
    setp.ne.u32 %p0, %i3, 6; @%p0 bra OUT; mov.u64 %l0, text; cvta.global.u64 %l1, %l0;
    mov.u32 %r0, 77; mov.u64 %l2, 1;
    { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
    st.param.b64 [p0+0], %l1; st.param.b64 [p1+0], %l1; st.param.b32 [p2+0], %r0;
    st.param.b64 [p3+0], %l1; st.param.b64 [p4+0], %l2;
    call.uni __assertfail, (p0, p1, p2, p3, p4); }
    OUT:)"));
  Array<u8> text(std::vector<u8>{'x', '>', '0', 0});
  ptx.set_symbol("text", text.address());
  Array<u32> out(1, 0);
  const Outcome o = ptx.run("k", {}, out);
  CHECK(!o.ok);
  CHECK(int(o.fault.kind) == int(Fault::assertion));
  CHECK(o.fault.what == "x>0:77: x>0: assertion `x>0` failed");
  CHECK(o.fault.thread[0] == 6);
}
