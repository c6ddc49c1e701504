// The real NVRTC, where it is installed: it needs no GPU to compile.
#include "warptape/kernels/jit/nvrtc.h"
#include "warptape/kernels/jit/compile.h"
#include "warptape/kernels/jit/kernel.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using wt_test::Environment;

namespace {

#define NEED_NVRTC() \
  if (!jit::nvrtc().api) SKIP_TEST(jit::nvrtc().why_not.c_str())

const char* const kText = R"(extern "C" __global__ void scale(float* y, float a) { *y *= a; }
template <class T>
__global__ void add(T* y, T a) { *y += a; }
)";

}  // namespace

TEST_CASE("row 94: NVRTC makes PTX and machine code of a kernel and of a template") {
  NEED_NVRTC();
  const jit::KernelCode ptx = jit::compile({kText, "scale", {}}, "compute_80");
  CHECK(ptx.entry == "scale");
  CHECK(mentions(ptx.code, ".visible .entry scale("));
  CHECK(mentions(ptx.code, ".target sm_80"));
  CHECK(ptx.code.back() == '\0');
  const jit::KernelCode add = jit::compile({kText, "add<double>", {}}, "compute_80");
  CHECK(ptx.code.find("_Z3add") == std::string::npos);  // a template that nobody named
  CHECK(mentions(add.code, ".entry " + add.entry + "("));
  CHECK(mentions(add.code, ".f64"));
  const jit::KernelCode cubin = jit::compile({kText, "scale", {}}, "sm_90");
  CHECK(
      cubin.code.starts_with("\x7f"
                             "ELF"));
}

TEST_CASE("row 94: NVRTC's errors have the lines of the text") {
  NEED_NVRTC();
  const auto said = [](const std::string& text, const std::string& name,
                       std::vector<std::string> options = {}, const char* arch = "sm_90") {
    return message_of([&] { (void)jit::compile({text, name, options}, arch); });
  };
  const std::string wrong =
      said("extern \"C\" __global__ void scale(float* y) {\n  *y = 2;\n  *z = 3;\n}\n", "scale");
  CHECK(mentions(wrong, "UsageError: [kernel scale] the source does not compile (NVRTC "));
  CHECK(mentions(wrong, "kernel.cu(3): error: identifier \"z\" is undefined"));
  CHECK(mentions(said(kText, "scal"), "the source has no such kernel; it has scale; did you mean"));
  CHECK(mentions(said(kText, "scale", {"--no-such-option"}),
                 "does not take these options: sm_90 "
                 "--no-such-option"));
  CHECK(mentions(said(kText, "scale", {}, "sm_1"), "does not take these options: sm_1"));
}

TEST_CASE("row 94: what NVRTC has compiled is a hit on disk") {
  NEED_NVRTC();
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  jit::forget_kernels();
  const std::string code = jit::code_for({kText, "add<float>", {}}, "compute_80").code;
  CHECK(jit::counts().compiled == 1);
  jit::forget_kernels();
  CHECK(jit::code_for({kText, "add<float>", {}}, "compute_80").code == code);
  CHECK(jit::counts().compiled == 0);
  CHECK(jit::counts().disk_hits == 1);
  jit::forget_kernels();
}

TEST_CASE("row 94: where NVRTC is looked for") {
  const Environment off("WT_NVRTC", "off");
  CHECK(jit::find_nvrtc(system_loader).why_not == "WT_NVRTC=off");
  off.set("/nowhere/libnvrtc.so");
  CHECK(mentions(jit::find_nvrtc(system_loader).why_not,
                 "WT_NVRTC: /nowhere/libnvrtc.so cannot be loaded"));
  off.set("libm.so.6");
  CHECK(mentions(jit::find_nvrtc(system_loader).why_not,
                 "libm.so.6 lacks nvrtcVersion: it is too old, or not NVRTC"));
  const Environment roots("CUDA_HOME", nullptr), path("CUDA_PATH", nullptr);
  off.set(nullptr);
  const LibraryLoader nothing{[](const char*) -> void* { return nullptr; },
                              [](void*, const char*) -> void* { return nullptr; }};
  CHECK(mentions(jit::find_nvrtc(nothing).why_not, "there is no libnvrtc.so.13"));
}
