// Loads and stores of all spaces and widths, vectors, parameters, windows of generic addresses, and
// the counts of sectors and bank conflicts.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

// Copies elements of type `type` through registers of class `reg` (with lanes of `n` elements).
void check_copy(const std::string& space_in, const std::string& type, const std::string& reg,
                u32 bytes, u32 n) {
  std::string list;
  for (u32 i = 0; i < n; ++i) list += (i ? ", " : "") + std::string("%z") + std::to_string(i);
  const std::string v = n == 1 ? "" : ".v" + std::to_string(n),
                    data = n == 1 ? list : "{" + list + "}";
  const u32 step = bytes * n;
  Ptx ptx(kernel_text(2, ".reg ." + reg +
                             " %z<4>;\nsetp.ge.u32 %p0, %i0, 150; @%p0 bra END;\n"
                             "mad.wide.u32 %l0, %i0, " +
                             std::to_string(step) +
                             ", %a0;\n"
                             "mad.wide.u32 %l1, %i0, " +
                             std::to_string(step) +
                             ", %a1;\n"
                             "ld." +
                             space_in + v + "." + type + " " + data +
                             ", [%l0];\n"
                             "st.global" +
                             v + "." + type + " [%l1], " + data + ";\nEND:"));
  std::mt19937 g(step);
  std::vector<u8> bytes_in;
  for (u32 i = 0; i < 150 * step; ++i) bytes_in.push_back(u8(g()));
  Array<u8> in(bytes_in), out(bytes_in.size(), 0);
  Launch l;
  l.block = {160};
  runs(ptx, l, in, out);
  CHECK(out.values() == in.values());
}

}  // namespace

TEST_CASE("Every width from and to global memory", "[emulator]") {
  for (const char* from : {"global", "global.nc"})
    for (const u32 n : {1u, 2u, 4u}) {
      for (const char* t : {"u8", "s8", "b8"})
        for (const char* reg : {"b16", "b32", "b64"}) check_copy(from, t, reg, 1, n);
      for (const char* t : {"u16", "s16", "b16"})
        for (const char* reg : {"b16", "b32", "b64"}) check_copy(from, t, reg, 2, n);
      for (const char* t : {"u32", "s32", "b32"})
        for (const char* reg : {"b32", "b64"}) check_copy(from, t, reg, 4, n);
      check_copy(from, "f32", "f32", 4, n);
      if (n == 4) continue;
      for (const char* t : {"u64", "s64", "b64"}) check_copy(from, t, "b64", 8, n);
      check_copy(from, "f64", "f64", 8, n);
    }
}

TEST_CASE("Loads extend by the type's sign", "[emulator]") {
  const auto ask = [](const std::string& type, const std::string& reg, u32 bytes, auto wants) {
    Ptx ptx(kernel_text(2, ".reg ." + reg + " %z;\nmad.wide.u32 %l0, %i0, 8, %a0;\nld.global." +
                               type + " %z, [%l0+0];\nmad.wide.u32 %l1, %i0, 8, %a1;\nst.global.b" +
                               std::to_string(8 * bytes) + " [%l1], %z;"));
    std::vector<u64> in;
    std::mt19937_64 g(3);
    for (u32 i = 0; i < 64; ++i) in.push_back(g());
    Array<u64> from(in), to(64, 0);
    Launch l;
    l.block = {64};
    REQUIRE(ptx.run("k", l, from, to).ok);
    const u64 mask = bytes == 8 ? ~u64(0) : (u64(1) << 8 * bytes) - 1;
    for (u32 i = 0; i < 64; ++i) CHECK(to[i] == (u64(wants(in[i])) & mask));
  };
  ask("s8", "b16", 2, [](u64 x) { return i64(i8(x)); });
  ask("s8", "b32", 4, [](u64 x) { return i64(i8(x)); });
  ask("s8", "b64", 8, [](u64 x) { return i64(i8(x)); });
  ask("u8", "b16", 2, [](u64 x) { return x & 255; });
  ask("u8", "b64", 8, [](u64 x) { return x & 255; });
  ask("s16", "b32", 4, [](u64 x) { return i64(i16(x)); });
  ask("s16", "b64", 8, [](u64 x) { return i64(i16(x)); });
  ask("u16", "b32", 4, [](u64 x) { return x & 0xffff; });
  ask("s32", "b64", 8, [](u64 x) { return i64(i32(x)); });
  ask("u32", "b64", 8, [](u64 x) { return x & 0xffffffff; });
}

TEST_CASE("A base register may be the result, and parts may be thrown away", "[emulator]") {
  Ptx ptx(kernel_text(2, R"(
    mad.wide.u32 %l0, %i0, 16, %a0; mad.wide.u32 %l1, %i0, 8, %a1;
    mov.b64 %l2, %l0; ld.global.v2.u64 {%l2, %l3}, [%l2];
    ld.global.v4.u32 {_, %r1, _, _}, [%l0]; ld.global.v4.u8 {%h1, _, _, %h2}, [%l0];
    cvt.u64.u32 %l4, %r1; add.s64 %l2, %l2, %l3; add.s64 %l2, %l2, %l4; cvt.u64.u16 %l5, %h1;
    cvt.u64.u16 %l6, %h2; shl.b64 %l6, %l6, 8; add.s64 %l5, %l5, %l6; add.s64 %l2, %l2, %l5;
    st.global.u64 [%l1], %l2;)"));
  std::vector<u64> in;
  std::mt19937_64 g(5);
  for (u32 i = 0; i < 64; ++i) in.push_back(g());
  Array<u64> from(in), to(32, 0);
  REQUIRE(ptx.run("k", {}, from, to).ok);
  for (u32 i = 0; i < 32; ++i)
    CHECK(to[i] == in[2 * i] + in[2 * i + 1] + (in[2 * i] >> 32) + (in[2 * i] & 255) +
                       ((in[2 * i] >> 24 & 255) << 8));
}

TEST_CASE("Parameters of a kernel", "[emulator]") {
  // As nvcc passes structs: bytes, read in parts at offsets.
  Ptx ptx(R"(
.visible .entry k(.param .u8 a, .param .align 8 .b8 s[24], .param .f64 d, .param .s8 n, .param .u64 to,
                  .param .align 16 .b8 v[16], .param .f32 f, .param .u16 h)
{
.reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %l<16>; .reg .f32 %f<4>; .reg .f64 %g<4>;
ld.param.u64 %l0, [to]; cvta.to.global.u64 %l0, %l0;
ld.param.u8 %h0, [a]; st.global.u16 [%l0], %h0;
ld.param.s8 %h1, [n]; st.global.u16 [%l0+2], %h1;
ld.param.b32 %r0, [s]; ld.param.u32 %r1, [s+4]; st.global.v2.u32 [%l0+8], {%r0, %r1};
ld.param.v2.u32 {%r2, %r3}, [s+8]; st.global.v2.u32 [%l0+16], {%r2, %r3};
ld.param.v4.u8 {%h2, %h3, %h4, %h5}, [s+16]; st.global.v4.u8 [%l0+24], {%h2, %h3, %h4, %h5};
ld.param.v2.u8 {%h6, %h7}, [s+20]; st.global.v2.u8 [%l0+28], {%h6, %h7};
ld.param.f64 %g0, [d]; st.global.f64 [%l0+32], %g0;
ld.param.v2.f32 {%f0, %f1}, [v+8]; st.global.f32 [%l0+40], %f0; st.global.f32 [%l0+44], %f1;
ld.param.f32 %f2, [f]; st.global.f32 [%l0+48], %f2;
ld.param.u16 %h8, [h]; st.global.u16 [%l0+52], %h8;
mov.b64 %l1, s; cvta.param.u64 %l2, %l1; ld.u32 %r6, [%l2+12]; st.global.u32 [%l0+56], %r6;
mov.b64 %l3, s; mov.u32 %r7, %tid.x; cvt.u64.u32 %l4, %r7; add.s64 %l3, %l3, %l4;
ld.param.u8 %h9, [%l3+1]; st.global.u16 [%l0+60], %h9;
ret;
})");
  struct S {
    u32 x[6];
  };
  struct V {
    u32 x[4];
  };
  Array<u8> out(64, 0);
  const S s = {{0x11223344, 0x55667788, 0x99aabbcc, 0xddeeff00, 0x04030201, 0x0605}};
  Launch l;
  l.block = {1};
  runs(ptx, l, u8(200), s, 2.5, i8(-3), out, V{{1, 2, 3, 4}}, 1.25f, u16(9));
  const auto at = [&]<class T>(u32 i, T) {
    T x;
    std::memcpy(&x, &out[i], sizeof x);
    return x;
  };
  CHECK(at(0, u16{}) == 200);
  CHECK(at(2, i16{}) == -3);
  CHECK(at(8, u32{}) == s.x[0]);
  CHECK(at(12, u32{}) == s.x[1]);
  CHECK(at(16, u32{}) == s.x[2]);
  CHECK(at(20, u32{}) == s.x[3]);
  CHECK(at(24, u32{}) == s.x[4]);
  CHECK(at(28, u16{}) == 0x0605);
  CHECK(at(32, double{}) == 2.5);
  CHECK(at(40, u32{}) == 3);
  CHECK(at(44, u32{}) == 4);
  CHECK(at(48, float{}) == 1.25f);
  CHECK(at(52, u16{}) == 9);
  CHECK(at(56, u32{}) == s.x[3]);
  CHECK(at(60, u16{}) == 0x33);
}

TEST_CASE("Shared, local and constant memory, and the windows of generic addresses", "[emulator]") {
  Ptx ptx(R"(
.global .align 4 .u32 counter;
.const .align 4 .u32 table[4] = {5, 6, 7, 8};
.extern .shared .align 16 .b8 dynamic[];
.shared .align 8 .b8 fixed[512];
)" + kernel_text(1, R"(
  .local .align 8 .b8 depot[32];
  mov.u32 %r0, fixed; mad.lo.u32 %r1, %i3, 8, %r0; mov.u32 %r2, dynamic; mad.lo.u32 %r3, %i3, 16, %r2;
  cvt.u64.u32 %l0, %i3; mul.lo.s64 %l0, %l0, 3; st.shared.u64 [%r1], %l0; ld.shared.u64 %l1, [%r1];
  st.shared.v4.u32 [%r3], {%i3, %i3, %r1, %r1}; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
  st.shared.u16 [%r3+2], 7; ld.shared.u16 %h0, [%r3+2]; ld.shared.u8 %h1, [%r3+2];
  st.shared.u8 [%r3+3], %h1; ld.shared.u32 %r9, [%r3];
  cvt.rn.f32.u32 %f0, %i3; st.shared.v4.f32 [%r3], {%f0, %f0, %f0, %f0};
  ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3]; st.shared.f32 [%r3], %f4; ld.shared.f32 %f5, [%r3];
  cvt.f64.f32 %g0, %f5; st.shared.f64 [%r3+8], %g0; ld.shared.f64 %g1, [%r3+8];
  cvt.rzi.u32.f64 %r10, %g1;
  // local memory, by its name and by a generic address
  mov.u64 %l2, depot; cvta.local.u64 %l3, %l2; cvta.to.local.u64 %l4, %l3;
  st.local.u32 [%l2+4], %i3; ld.u32 %r11, [%l3+4]; st.u64 [%l3+8], %l1; ld.local.u64 %l5, [%l4+8];
  st.local.u64 [depot+16], %l5; ld.local.u32 %r16, [depot+16];
  // a generic address of shared memory, and what kind it is
  cvt.u64.u32 %l6, %r1; cvta.shared.u64 %l7, %l6; ld.u64 %l8, [%l7]; isspacep.shared %p1, %l7;
  isspacep.local %p2, %l3; isspacep.global %p3, %a0; isspacep.global %p4, %l7;
  selp.u32 %r12, 1, 0, %p1; selp.u32 %r13, 2, 0, %p2; selp.u32 %r14, 4, 0, %p3;
  selp.u32 %r15, 8, 0, %p4; add.u32 %r12, %r12, %r13; add.u32 %r12, %r12, %r14;
  add.u32 %r12, %r12, %r15;
  and.b32 %r17, %i3, 3; mul.wide.u32 %l9, %r17, 4; mov.u64 %l10, table; add.s64 %l10, %l10, %l9;
  ld.const.u32 %r18, [%l10]; ld.const.u32 %r19, [table+4];
  ld.global.u32 %r20, [counter]; cvta.global.u64 %l11, %a0;
  // all of it
  mad.wide.u32 %l12, %i0, 64, %a0;
  st.global.u64 [%l12], %l1; st.global.v2.u32 [%l12+8], {%r4, %r7}; st.global.u32 [%l12+16], %r9;
  st.global.v2.u32 [%l12+24], {%r10, %r11}; st.global.u64 [%l12+32], %l8;
  st.global.v4.u32 [%l12+48], {%r12, %r18, %r19, %r20}; st.global.u32 [%l12+40], %r16;
  st.global.u32 [%l12+20], %r1;)"));
  Array<u32> counter(1, 77), table(std::vector<u32>{5, 6, 7, 8}), out(16 * 64, 0);
  ptx.set_symbol("counter", counter.address());
  ptx.set_symbol("table", table.address());
  Launch l;
  l.block = {64};
  l.shared = 64 * 16;
  runs(ptx, l, out);
  for (u32 i = 0; i < 64; ++i) {
    CAPTURE(i);
    const u32* r = &out[16 * i];
    CHECK(r[0] == 3 * i);
    CHECK(r[1] == 0);
    CHECK(r[2] == i);
    CHECK(r[3] == r[5]);
    CHECK(r[4] == ((i & 0xffff) | 0x07070000));
    CHECK(r[6] == i);
    CHECK(r[7] == i);
    CHECK(r[8] == 3 * i);
    CHECK(r[10] == 3 * i);
    CHECK(r[12] == 7);
    CHECK(r[13] == 5 + i % 4);
    CHECK(r[14] == 6);
    CHECK(r[15] == 77);
  }
}

TEST_CASE("Volatile and ordered accesses, and pairs in shared and local memory", "[emulator]") {
  Ptx ptx(".const .align 4 .f32 c[2] = {0f3F800000, 0f40000000};\n.shared .align 8 .b8 s[512];\n" +
          kernel_text(1, R"(
    .local .align 16 .b8 d[32];
    mad.wide.u32 %l0, %i0, 32, %a0; ld.volatile.global.f32 %f0, [%l0]; ld.acquire.gpu.u32 %r0, [%l0+4];
    ld.relaxed.gpu.global.u32 %r1, [%l0+8]; ld.volatile.global.u32 %r2, [%l0+12]; ld.const.f32 %f1, [c+4];
    add.f32 %f0, %f0, %f1; mov.u32 %r3, s; mad.lo.u32 %r3, %i3, 8, %r3;
    st.shared.v2.u32 [%r3], {%r0, %r1}; ld.shared.v2.u32 {%r4, %r5}, [%r3];
    ld.shared.v2.f32 {%f2, %f3}, [%r3]; mov.u64 %l1, d; st.local.v2.u32 [%l1], {%r5, %r4};
    ld.local.u64 %l2, [%l1]; st.local.v2.u64 [%l1+16], {%l2, %l2}; ld.local.v2.u64 {%l3, %l4}, [d+16];
    mov.b32 %r6, %f3; st.volatile.global.f32 [%l0], %f0; st.volatile.global.u32 [%l0+4], %r6;
    st.release.gpu.u32 [%l0+8], %r2; membar.gl; fence.acq_rel.gpu; st.global.v2.u64 [%l0+16], {%l3, %l4};
    prefetch.global.L2 [%l0];)"));
  Array<float> c(std::vector<float>{1, 2});
  ptx.set_symbol("c", c.address());
  std::vector<u32> in;
  for (u32 i = 0; i < 512; ++i) in.push_back(i % 8 ? i * 77 : bits_of(float(i)));
  Array<u32> words(in);
  Launch l;
  l.block = {64};
  runs(ptx, l, words);
  for (u32 i = 0; i < 64; ++i) {
    const u32 *x = &in[8 * i], *y = &words[8 * i];
    const std::vector<u32> want = {
        bits_of(float(8 * i) + 2), x[2], x[3], x[3], x[2], x[1], x[2], x[1]};
    CHECK(std::vector<u32>(y, y + 8) == want);
  }
}

TEST_CASE("What was never written is NaN", "[emulator]") {
  Ptx ptx(".shared .align 4 .b8 s[128];\n" + kernel_text(1, R"(
    .local .align 4 .b8 depot[8];
    mov.u32 %r0, s; mad.lo.u32 %r0, %i3, 4, %r0; ld.shared.u32 %r1, [%r0]; ld.local.u32 %r2, [depot+4];
    mad.wide.u32 %l0, %i0, 8, %a0; st.global.v2.u32 [%l0], {%r1, %r2};)"));
  Array<u32> out(64, 0);
  REQUIRE(ptx.run("k", {}, out).ok);
  for (u32 i = 0; i < 64; ++i) CHECK(out[i] == ~0u);
}

TEST_CASE("Special registers", "[emulator]") {
  Ptx ptx(kernel_text(1, R"(
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %nctaid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %laneid; mov.u32 %r7, %warpid;
    mov.u32 %r8, %lanemask_lt; mov.u32 %r9, %lanemask_ge; mov.u32 %r10, %lanemask_eq;
    mov.u32 %r11, %lanemask_le; mov.u32 %r12, %lanemask_gt; mov.u32 %r13, %dynamic_smem_size;
    mov.u32 %r14, WARP_SZ; mov.u32 %r15, %ctaid.x; cvt.u64.u32 %l4, %tid.x; cvt.u32.u64 %r0, %l4;
    mad.lo.u32 %r20, %r2, 3, %r1; mad.lo.u32 %r20, %r20, 5, %r0; mov.u32 %r21, %ctaid.z;
    mad.lo.u32 %r21, %r21, 2, %r3; mad.lo.u32 %r21, %r21, 2, %r15; mad.lo.u32 %r20, %r21, 60, %r20;
    mad.wide.u32 %l0, %r20, 64, %a0; st.global.v4.u32 [%l0], {%r0, %r1, %r2, %r3};
    st.global.v4.u32 [%l0+16], {%r4, %r5, %r6, %r7}; st.global.v4.u32 [%l0+32], {%r8, %r9, %r10, %r11};
    st.global.v4.u32 [%l0+48], {%r12, %r13, %r14, %r15};)"));
  Array<u32> out(8 * 60 * 16, 0);
  Launch l;
  l.grid = {2, 2, 2};
  l.block = {5, 3, 4};
  l.shared = 48;
  REQUIRE(ptx.run("k", l, out).ok);
  for (u32 b = 0; b < 8; ++b)
    for (u32 t = 0; t < 60; ++t) {
      const u32* r = &out[(b * 60 + t) * 16];
      const u32 lane = t % 32, bit = 1u << lane;
      const std::vector<u32> want = {
          t % 5,      t / 5 % 3, t / 15,          b / 2 % 2,          2,  3,  lane, t / 32, bit - 1,
          ~(bit - 1), bit,       bit | (bit - 1), ~(bit | (bit - 1)), 48, 32, b % 2};
      CHECK(std::vector<u32>(r, r + 16) == want);
    }
}

TEST_CASE("Counts of sectors and bank conflicts", "[emulator]") {
  Ptx ptx(".shared .align 4 .b8 s[8192];\n" + kernel_text(1, R"(
    mad.wide.u32 %l0, %i0, 4, %a0; ld.global.u32 %r0, [%l0];
    mad.wide.u32 %l1, %i0, 128, %a0; ld.global.u32 %r1, [%l1];
    mov.u32 %r2, s; mad.lo.u32 %r3, %i3, 4, %r2; st.shared.u32 [%r3], %r0;
    mad.lo.u32 %r4, %i3, 128, %r2; st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r2];)"));
  Array<u32> in(32 * 32, 1);
  std::vector<emu::LineCounts> profile;
  Launch l;
  l.profile = &profile;
  const Outcome o = runs(ptx, l, in);
  CHECK(o.counts.global_requests == 2);
  CHECK(o.counts.global_sectors == 4 + 32);
  CHECK(o.counts.shared_requests == 3);
  CHECK(o.counts.shared_wavefronts == 1 + 32 + 1);
  CHECK(o.counts.lane_instructions == 32 * o.counts.warp_instructions);
}
