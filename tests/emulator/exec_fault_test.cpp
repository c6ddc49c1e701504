// What stops a kernel: where it is said to be, and what for.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

template <class... A>
Outcome fails(Ptx& ptx, const Launch& l, Fault kind, const A&... arguments) {
  const Outcome o = ptx.run("k", l, arguments...);
  INFO(o.fault.what << " at " << o.fault.ptx);
  REQUIRE(!o.ok);
  CHECK(int(o.fault.kind) == int(kind));
  CHECK(o.fault.kernel == "k");
  return o;
}

}  // namespace

TEST_CASE("Accesses out of bounds name their thread and instruction", "[emulator]") {
  // Thread 41 alone steps over the end, and it alone is there.
  Ptx ptx(kernel_text(1, R"(
    setp.ne.u32 %p0, %i3, 41; @%p0 bra OUT; mad.wide.u32 %l0, %i3, 4, %a0;
    st.global.u32 [%l0], %i3;
    OUT:)"));
  Array<u32> short_one(41, 0);
  Launch l;
  l.block = {8, 8};
  Ptx flat(kernel_text(1, "mad.wide.u32 %l0, %i0, 4, %a0;\nst.global.u32 [%l0], %i3;"));
  Launch line;
  line.block = {64};
  const Outcome o = fails(ptx, line, Fault::illegal_address, short_one);
  CHECK(o.fault.thread[0] == 41);
  CHECK(o.fault.ptx.find("st.global.u32 [%l0], %i3") != std::string::npos);
  CHECK(o.fault.what.find("writes 4 bytes") != std::string::npos);
  const Outcome p = fails(flat, line, Fault::illegal_address, short_one);
  CHECK(p.fault.thread[0] == 41);
  line.grid = {3};
  Array<u32> two(128, 0);
  const Outcome q = fails(flat, line, Fault::illegal_address, two);
  CHECK(q.fault.block[0] == 2);
  Ptx guarded(kernel_text(
      1, "setp.eq.u32 %p0, %i3, 9; mov.u64 %l31, 4096;\n@%p0 ld.global.u32 %r0, [%l31+8];"));
  Launch one;
  Array<u32> none(1, 0);
  const Outcome g = fails(guarded, one, Fault::illegal_address, none);
  CHECK(g.fault.thread[0] == 9);
}

TEST_CASE("Misaligned accesses", "[emulator]") {
  Array<u8> bytes(512, 0);
  for (const auto& [type, at] : {std::pair<const char*, u32>{"u16", 1},
                                 {"u32", 2},
                                 {"u64", 4},
                                 {"v2.u32", 4},
                                 {"v4.f32", 8},
                                 {"v2.u16", 2}}) {
    const std::string t = type;
    const std::string reg = t.starts_with("v2")   ? t.ends_with("16") ? "{%h0, %h1}" : "{%r0, %r1}"
                            : t.starts_with("v4") ? "{%f0, %f1, %f2, %f3}"
                            : t == "u16"          ? "%h0"
                            : t == "u64"          ? "%l0"
                                                  : "%r0";
    Ptx ptx(kernel_text(1, "setp.ne.u32 %p0, %i3, 17; @%p0 bra OUT;\nld.global." + t + " " + reg +
                               ", [%a0+" + std::to_string(at) + "];\nOUT:"));
    const Outcome o = fails(ptx, {}, Fault::misaligned, bytes);
    CHECK(o.fault.thread[0] == 17);
  }
}

TEST_CASE("Accesses out of shared and local memory", "[emulator]") {
  const std::string shared = ".shared .align 4 .b8 s[64];\n";
  Array<u32> out(64, 0);
  Ptx over(shared + kernel_text(1,
                                "mov.u32 %r0, s; mad.lo.u32 %r0, %i3, 4, %r0;\n"
                                "st.shared.u32 [%r0], %i3;"));
  CHECK(fails(over, {}, Fault::illegal_address, out).fault.thread[0] == 16);
  Launch more;
  more.shared = 64;
  CHECK(over.run("k", more, out).ok);  // dynamic shared memory follows
  Ptx under(shared + kernel_text(1, "mov.u32 %r0, s;\nld.shared.u32 %r1, [%r0+-4];"));
  fails(under, {}, Fault::illegal_address, out);
  Ptx local(".global .u32 x;\n" + kernel_text(1,
                                              ".local .align 4 .b8 d[16]; mov.u64 %l0, d;\n"
                                              "cvta.local.u64 %l1, %l0; st.u32 [%l1+16], %i3;"));
  fails(local, {}, Fault::illegal_address, out);
  Ptx null(kernel_text(1, "mov.u64 %l0, 0;\nld.u32 %r0, [%l0];"));
  fails(null, {}, Fault::illegal_address, out);
  Ptx other(kernel_text(1, "ld.global.u32 %r0, [%a0];"));
  plain_block(reinterpret_cast<const void*>(out.address())).device = 1;
  CHECK(fails(other, {}, Fault::illegal_address, out).fault.what.find("another device") !=
        std::string::npos);
}

TEST_CASE("A missing barrier is found whatever the order was", "[emulator]") {
  const auto text = [](const char* barrier, const char* after) {
    return ".shared .align 4 .b8 s[512];\n" + kernel_text(1, std::string(R"(
    mov.u32 %r1, s; mad.lo.u32 %r2, %i3, 4, %r1; st.shared.u32 [%r2], %i3; )") +
                                                                 barrier + R"(
    xor.b32 %r3, %i3, 64; mad.lo.u32 %r4, %r3, 4, %r1; ld.shared.u32 %r5, [%r4]; )" +
                                                                 after);
  };
  Array<u32> out(4, 0);
  Launch l;
  l.block = {128};
  Ptx right(text("bar.sync 0;", "")), wrong(text("", "")),
      again(text("bar.sync 0;", "st.shared.u32 [%r2], %r5;")),
      within(text("bar.warp.sync -1;", ""));
  for (u64 seed = 0; seed < 30; ++seed) {
    l.seed = seed;
    CHECK(right.run("k", l, out).ok);
    fails(wrong, l, Fault::race, out);
    fails(again, l, Fault::race, out);
    fails(within, l, Fault::race, out);
  }
  l.block = {32};  // within a warp other rules hold
  Ptx one(".shared .align 4 .b8 s[512];\n" + kernel_text(1, R"(
    mov.u32 %r1, s; mad.lo.u32 %r2, %i3, 4, %r1; st.shared.u32 [%r2], %i3; bar.warp.sync -1;
    ld.shared.u32 %r3, [%r1];)"));
  CHECK(one.run("k", l, out).ok);
}

// A flag in global memory makes the order certain, but is no barrier.
TEST_CASE("Every order of two accesses is a race", "[emulator]") {
  const auto ordered = [](const std::string& first, const std::string& second, const char* what) {
    Ptx ptx(".shared .align 4 .b8 s[4];\n" + kernel_text(1, R"(
    mov.u32 %r9, %warpid; setp.eq.u32 %p0, %r9, 0; @%p0 bra SECOND; setp.eq.u32 %p1, %r9, 2; @%p1 bra OUT;
    )" + first + R"(
    mov.u32 %r1, 1; st.volatile.global.u32 [%a0], %r1; bra OUT;
    SECOND: ld.volatile.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SECOND;
    )" + second + "\nOUT:"));
    for (u64 seed = 0; seed < 5; ++seed) {
      Array<u32> flag(1, 0);
      Launch l;
      l.block = {96};
      l.seed = seed;
      const Outcome o = fails(ptx, l, Fault::race, flag);
      CHECK(o.fault.thread[0] < 32);
      CHECK(o.fault.what.find(what) != std::string::npos);
    }
  };
  const std::string write = "st.shared.u32 [s], %i3;", read = "ld.shared.u32 %r2, [s];";
  ordered(write, read, "warp 1 wrote");
  ordered(write, write, "warp 1 wrote");
  ordered(read, write, "warp 1 read ");
  // The one that writes was the last that read, but not the only one.
  ordered(read, read + write, "reads");
}

TEST_CASE("Atomics, volatile accesses and locks are no races", "[emulator]") {
  Array<u32> out(1, 0);
  Launch l;
  l.block = {128};
  Ptx sum(".shared .align 4 .b8 s[4];\n" + kernel_text(1, R"(
    setp.eq.u32 %p0, %i3, 0; mov.u32 %r9, 0; @%p0 st.shared.u32 [s], %r9; bar.sync 0;
    atom.shared.add.u32 %r0, [s], 1; bar.sync 0; ld.shared.u32 %r1, [s]; @%p0 st.global.u32 [%a0], %r1;)"));
  Ptx lock(".shared .align 4 .b8 s[8];\n" + kernel_text(1, R"(
    setp.eq.u32 %p0, %i3, 0; mov.u32 %r9, 0; @%p0 st.shared.v2.u32 [s], {%r9, %r9}; bar.sync 0;
    mov.u32 %r5, 0;
    TRY: atom.shared.cas.b32 %r1, [s], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra NEXT;
    ld.shared.u32 %r2, [s+4]; add.u32 %r2, %r2, 1; st.shared.u32 [s+4], %r2; membar.cta; mov.u32 %r5, 1;
    atom.shared.exch.b32 %r3, [s], 0;
    NEXT: setp.eq.u32 %p2, %r5, 0; @%p2 bra TRY;
    bar.sync 0; ld.shared.u32 %r1, [s+4]; @%p0 st.global.u32 [%a0], %r1;)"));
  for (u64 seed = 0; seed < 10; ++seed) {
    l.seed = seed;
    for (Ptx* p : {&sum, &lock}) {
      out[0] = 0;
      const Outcome o = p->run("k", l, out);
      INFO(o.fault.what);
      CHECK(o.ok);
      CHECK(out[0] == 128);
    }
  }
}

TEST_CASE("Threads that wait for ever", "[emulator]") {
  Array<u32> out(1, 0);
  Launch l;
  l.block = {128};
  Ptx half(kernel_text(1,
                       "setp.lt.u32 %p0, %i3, 40; @%p0 bra OUT;\nbar.sync 1, 128;\n"
                       "OUT: bar.sync 0;"));
  const Outcome o = fails(half, l, Fault::barrier, out);
  CHECK(o.fault.ptx.find("bar.sync") != std::string::npos);
  Ptx warp(kernel_text(1,
                       "setp.lt.u32 %p0, %i3, 3; @%p0 bra OUT;\nbar.warp.sync -1;\nbra END;\n"
                       "OUT: bar.sync 1, 64;\nEND:"));
  CHECK(fails(warp, {}, Fault::barrier, out).fault.ptx.find("bar") != std::string::npos);
}

TEST_CASE("Member masks that do not name the lanes", "[emulator]") {
  Array<u32> out(1, 0);
  Ptx self(kernel_text(1, "shfl.sync.bfly.b32 %r0, %i3, 1, 31, 0xffff;"));
  CHECK(fails(self, {}, Fault::barrier, out).fault.thread[0] == 16);
  Ptx counts(kernel_text(1, "bar.sync 1, 33;"));
  fails(counts, {}, Fault::barrier, out);
  Ptx part(".shared .align 16 .b8 s[512];\n" +
           kernel_text(1,
                       "setp.eq.u32 %p0, %i3, 5; @%p0 exit; mov.u32 %r0, s;\n"
                       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r0];"));
  fails(part, {}, Fault::barrier, out);
}

TEST_CASE("Traps and what is not known", "[emulator]") {
  Array<u32> out(1, 0);
  Ptx trap(kernel_text(1, "setp.ne.u32 %p0, %i3, 21; @%p0 bra OUT;\ntrap;\nOUT:"));
  CHECK(fails(trap, {}, Fault::assertion, out).fault.thread[0] == 21);
  Ptx unknown(
      kernel_text(1, "setp.ne.u32 %p0, %i3, 99; @%p0 bra OUT;\nfrobnicate.b32 %r0, %r1;\nOUT:"));
  CHECK(unknown.run("k", {}, out).ok);  // nobody came there
  Launch l;
  l.block = {128};
  const Outcome o = fails(unknown, l, Fault::illegal_instruction, out);
  CHECK(o.fault.ptx.find("frobnicate") != std::string::npos);
}

TEST_CASE("No modifier of an instruction is ignored in silence", "[emulator]") {
  Array<u32> out(1, 0);
  for (const char* form :
       {"add.sideways.s32 %r0, %r1, %r2;", "add.rn.bf16x4 %r0, %r1, %r2;",
        "cvt.rs.f16x2.f32 %r0, %f1, %f2, %r1;", "match.some.sync.b32 %r0, %r1, -1;",
        "redux.sync.nand.b32 %r0, %r1, -1;", "shf.m.wrap.b32 %r0, %r1, %r2, %r3;",
        "slct.ftz.u32.f32 %r0, %r1, %r2, %f1;", "ld.global.v8.b32 %r0, [%a0];",
        "bar.red.nor.pred %p1, 0, %p2;",
        "mma.sync.aligned.m8n8k4.kind::f8f6f4 %r0, %r1, %r2, %r3;"}) {
    Ptx ptx(kernel_text(1, form));
    INFO(form);
    fails(ptx, {}, Fault::illegal_instruction, out);
  }
  for (const char* form :
       {"ld.weak.global.nc.L1::no_allocate.L2::128B.u32 %r0, [%a0];", "fence.proxy.async;",
        "fence.acq_rel.cluster;", "prefetch.global.L2::evict_last [%a0];", "membar.gl;",
        "atom.add.noftz.gpu.global.relaxed.f16 %h0, [%a0], %h1;", "pmevent.mask 3;",
        "discard.global.L2 [%a0], 128;", "rsqrt.approx.ftz.f64 %g0, %g1;",
        "tanh.approx.f16 %h0, %h1;"}) {
    Ptx ptx(kernel_text(1, form));
    const Outcome o = ptx.run("k", {}, out);
    INFO(form << ": " << o.fault.what);
    CHECK(o.ok);
  }
}

TEST_CASE("A race is told once an instruction, and the kernel goes on", "[emulator]") {
  Array<u32> out(128, 0);
  std::vector<emu::KernelFault> warned;
  Launch l;
  l.block = {128};
  l.warned = &warned;
  Ptx ptx(".shared .align 4 .b8 s[4];\n" + kernel_text(1, R"(
    st.shared.u32 [s], %i3; mad.wide.u32 %l0, %i3, 4, %a0; st.global.u32 [%l0], %i3;)"));
  CHECK(ptx.run("k", l, out).ok);
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].ptx.find("st.shared.u32") != std::string::npos);
  CHECK(warned[0].what.find("__syncthreads() is missing") != std::string::npos);
  for (u32 i = 0; i < 128; ++i) REQUIRE(out[i] == i);
}

TEST_CASE("A kernel has the shared memory that it names, not all of its module's", "[emulator]") {
  Array<u32> out(1, 0);
  Ptx ptx(".shared .align 4 .b8 mine[40];\n.shared .align 4 .b8 others[49152];\n" +
          kernel_text(1, "st.shared.u32 [mine+36], %i3;"));
  CHECK(emu::info(*ptx.program().kernel("k")).static_shared == 40);
  CHECK(ptx.run("k", {}, out).ok);
}
