// What nvcc, ptxas and the emulated device say, as wt grade reads it.
#include "warptape/tests/support/catch.h"
#include "warptape/tools/wt/grade/device.h"

namespace wt::grade {
namespace {

TEST_CASE("grade: a kernel's name without namespaces and arguments") {
  CHECK(kernel_label("void wt::cuda::(anonymous namespace)::softmax<64>(float*, int)") ==
        "softmax<64>");
  CHECK(kernel_label("wt::cuda::(anonymous namespace)::add(float*, void (*)(int))") == "add");
  CHECK(kernel_label("void apply<(wt::Activation)1>(float*)") == "apply<(Activation)1>");
  CHECK(kernel_label("plain") == "plain");
}

TEST_CASE("grade: registers, stack and spills of what ptxas says") {
  const auto all = ptxas_kernels(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function '_Z1aPf' for 'sm_90a'\n"
      "ptxas info    : Function properties for _Z1aPf\n"
      "    1024 bytes stack frame, 48 bytes spill stores, 52 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes cumulative stack size, 8192 "
      "bytes smem\n"
      "ptxas info    : Compile time = 7.964 ms\n"
      "ptxas info    : Function properties for _Z6calledf\n"
      "    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Compiling entry function '_Z1bPf' for 'sm_90a'\n"
      "ptxas info    : Function properties for _Z1bPf\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 12 registers, used 0 barriers\n");
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "a");
  CHECK(all[0].registers == 40);
  CHECK(all[0].stack == 1024);
  CHECK(all[0].spill_stores == 48);
  CHECK(all[0].spill_loads == 52);
  CHECK(all[0].shared == 8192);
  CHECK(all[1].name == "b");
  CHECK(all[1].registers == 12);
  CHECK(all[1].shared == 0);
  CHECK(ptxas_kernels("").empty());
}

TEST_CASE("grade: what nvcc refuses has a line and a hint") {
  Compiled c;
  c.output =
      "/a/ker nel.cu(9): warning #20094-D: a host variable \"g\" cannot be directly read\n"
      "/a/ker nel.cu(18): error: calling a __host__ function(\"f(float)\") from a __global__ "
      "function(\"k\") is not allowed\n\n1 error detected in the compilation of "
      "\"kernel.nvcc.cu\".\n";
  Finding f = of_nvcc(c, "/a/ker nel.cu");
  CHECK(f.kind == "nvcc");
  CHECK(f.line == 18);
  CHECK(f.sentence.starts_with("nvcc refuses it: error: calling a __host__ function"));
  CHECK(f.hint.starts_with("what a kernel calls is __device__"));

  // In a header: the line of the file that made it so.
  c.output =
      "/inc/x.h(4): error: static assertion failed\n          detected during:\n"
      "            instantiation of \"void f<T>()\" at line 7 of /a/k.cu(7)\n";
  CHECK(of_nvcc(c, "k.cu").line == 7);
  c.output = "nvcc fatal   : Unknown option\n";
  f = of_nvcc(c, "k.cu");
  CHECK(f.line == 0);
  CHECK(f.sentence == "nvcc failed: nvcc fatal   : Unknown option");
  c.borrowed = "softmax.cu";
  CHECK(of_nvcc(c, "k.cu").kind == "borrowed");
}

TEST_CASE("grade: findings, notes and kernels of the emulated device") {
  const Emulated e = emulated(
      "of the student's own\n"
      "       3  cuda:0  stream 1        3.00 us  void wt::cuda::(anonymous "
      "namespace)::k<4>(float*)<<<2  64>>>\n"
      "       4  cuda:0  stream 1        0.10 us  copy of 4 bytes\n"
      "emulator: note: launch of k refused: too many threads\n"
      "emulator: misaligned address in kernel wt::cuda::(anonymous namespace)::k(float*), PTX line "
      "61\n"
      "  reads 16 bytes at 0x7004, which is not a multiple of 16\n"
      "  block (0, 0, 0), thread (0, 0, 0)\n"
      "  source /a/k.cu:36\n"
      "emulator: 1 findings, 1 different\n");
  REQUIRE(e.findings.size() == 1);
  CHECK(e.kernels == std::set<std::string>{"k<4>"});
  CHECK(e.notes == std::vector<std::string>{"launch of k refused: too many threads"});
  const Finding f = of_emulated(e.findings[0], "/a/k.cu");
  CHECK(f.kind == "misaligned");
  CHECK(f.line == 36);
  CHECK(
      f.sentence ==
      "on the emulated device, in k: misaligned address: reads 16 bytes at 0x7004, which is not a "
      "multiple of 16");
  CHECK_FALSE(f.hint.empty());
  CHECK(of_emulated("something else", "k.cu").kind == "device");
  CHECK(emulated("").findings.empty());
}

}  // namespace
}  // namespace wt::grade
