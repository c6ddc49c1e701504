// Compiled kernels in memory and on disk: what is found where, and what is never taken. NVRTC is
// the tests' own (nvrtc_test.cpp has the real one).
#include <filesystem>

#include "warptape/core/input_file.h"
#include "warptape/kernels/jit/cache_file.h"
#include "warptape/kernels/jit/kernel.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_nvrtc.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeNvrtc;
using wt_test::warnings;
using wt_test::Warnings;

namespace {

const jit::KernelSource kScale{"__global__ void scale(float* y) { *y *= 2; }", "scale", {}};

// compiled, memory hits, disk hits.
std::vector<long long> counted() {
  const jit::Counts c = jit::counts();
  return {c.compiled, c.memory_hits, c.disk_hits};
}
using Counted = std::vector<long long>;

std::string only_file(const TempDir& dir) {
  std::string found;
  for (const auto& e : std::filesystem::directory_iterator(dir.path)) {
    REQUIRE(found.empty());
    found = e.path().string();
  }
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE(
    "row 94: a kernel is compiled once, then found in memory and, by the next process, on disk") {
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  const FakeNvrtc nvrtc;
  const std::string code = jit::code_for(kScale, "sm_90").code;
  CHECK(mentions(code, "ELF --gpu-architecture=sm_90"));
  CHECK(counted() == Counted{1, 0, 0});
  CHECK(jit::code_for(kScale, "sm_90").code == code);
  CHECK(counted() == Counted{1, 1, 0});
  CHECK(dir.count(".kernel") == 1);

  jit::forget_kernels();
  const jit::KernelCode& kept = jit::code_for(kScale, "sm_90");
  CHECK(kept.code == code);
  CHECK(kept.entry == "scale");
  CHECK(counted() == Counted{0, 0, 1});
  CHECK(nvrtc.compilations == 1);
}

TEST_CASE("row 94: another source, name, option, architecture or NVRTC is another kernel") {
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  FakeNvrtc nvrtc;
  const auto compiles = [&](const jit::KernelSource& s, const std::string& arch) {
    jit::forget_kernels();
    (void)jit::code_for(s, arch);
    return jit::counts().compiled == 1;
  };
  CHECK(compiles(kScale, "sm_90"));
  CHECK_FALSE(compiles(kScale, "sm_90"));
  jit::KernelSource other = kScale;
  other.text += "\n";
  CHECK(compiles(other, "sm_90"));
  other = kScale;
  other.text += " void other(int);";
  other.name = "other";
  CHECK(compiles(other, "sm_90"));
  other = kScale;
  other.options = {"-DN=1"};
  CHECK(compiles(other, "sm_90"));
  other.options = {"-D", "N=1"};
  CHECK(compiles(other, "sm_90"));
  CHECK(compiles(kScale, "sm_80"));
  CHECK(compiles(kScale, "compute_90"));
  nvrtc.api.version_text = "13.1";
  CHECK(compiles(kScale, "sm_90"));
  nvrtc.api.version_text = "13.0";
  CHECK_FALSE(compiles(kScale, "sm_90"));
}

TEST_CASE("row 94: a damaged file is compiled anew and replaced, one of another key is no hit") {
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  const FakeNvrtc nvrtc;
  (void)jit::code_for(kScale, "sm_90");
  const std::string path = only_file(dir), good = slurp(path);
  const auto comes_back = [&](const std::string& content) {
    spit(path, content);
    jit::forget_kernels();
    const jit::KernelCode& code = jit::code_for(kScale, "sm_90");
    return counted() == Counted{1, 0, 0} && mentions(code.code, "sm_90") && slurp(path) == good;
  };
  CHECK(comes_back(""));
  for (size_t n = 0; n < good.size(); n += 7) CHECK(comes_back(good.substr(0, n)));
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] ^= 4;
    CAPTURE(i);
    CHECK(comes_back(bad));
  }
  CHECK(comes_back(good + "x"));
  // As if two keys had one hash: sound, and somebody else's.
  const std::string key = jit::key_of(kScale, "sm_90", "13.0");
  jit::write_kernel_file(path, key + " ", {"scale", "wrong code"});
  const std::string others = slurp(path);
  CHECK_FALSE(jit::read_kernel_file(path, key).has_value());
  CHECK(comes_back(others));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);  // no file at all
  jit::forget_kernels();
  const Warnings heard;
  CHECK(mentions(jit::code_for(kScale, "sm_90").code, "sm_90"));
  CHECK(warnings().size() == 1);
}

TEST_CASE(
    "row 94: where the folder cannot be written, kernels are compiled and one warning says so") {
  const TempDir dir;
  spit(dir / "file", "");
  const Environment folder("WT_KERNEL_CACHE", (dir / "file/below").c_str());
  const FakeNvrtc nvrtc;
  const Warnings heard;
  (void)jit::code_for(kScale, "sm_90");
  (void)jit::code_for(kScale, "sm_80");
  CHECK(counted() == Counted{2, 0, 0});
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0], "compiled kernels are not kept for the next process"));
  CHECK(mentions(warnings()[0], dir / "file/below"));
}

TEST_CASE("row 94: where compiled kernels are kept") {
  const TempDir dir;
  const Environment cache("XDG_CACHE_HOME", dir.path.c_str());
  const Environment folder("WT_KERNEL_CACHE", nullptr);
  const FakeNvrtc nvrtc;
  folder.set("off");
  (void)jit::code_for(kScale, "sm_90");
  CHECK(dir.count() == 0);
  folder.set("");  // as if it were not set
  CHECK(jit::kernel_cache_folder() == dir / "warptape/kernels");
  folder.set(nullptr);
  jit::forget_kernels();
  (void)jit::code_for(kScale, "sm_90");
  namespace fs = std::filesystem;
  const fs::path made = dir / "warptape/kernels";
  CHECK(std::distance(fs::directory_iterator(made), fs::directory_iterator()) == 1);
  CHECK(fs::status(made).permissions() == fs::perms::owner_all);  // code: nobody else's
}

TEST_CASE("row 94: of a source that includes a file of one's own nothing is kept on disk") {
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  const FakeNvrtc nvrtc;
  const auto kept = [&](const std::string& before, std::vector<std::string> options = {}) {
    const int files = dir.count();
    jit::KernelSource s = kScale;
    s.text = before + s.text;
    s.options = std::move(options);
    (void)jit::code_for(s, "sm_90");
    return dir.count() == files + 1;
  };
  CHECK(kept("#include <cuda_fp16.h>\n"));
  CHECK(kept("// #include \"mine.h\"\n"));
  CHECK(kept("", {"-I/a/folder"}));
  CHECK_FALSE(kept("#include \"mine.h\"\n"));
  CHECK_FALSE(kept("int i;\n #\tinclude MINE\n"));
  CHECK_FALSE(kept("", {"--pre-include=mine.h"}));
  CHECK_FALSE(kept("", {"-include=mine.h"}));
}

TEST_CASE("row 94: what does not compile says where, and what else is wrong says what") {
  const Environment folder("WT_KERNEL_CACHE", "off");
  const FakeNvrtc nvrtc;
  const auto said = [](std::string text, std::string name, std::vector<std::string> options = {}) {
    return message_of([&] { (void)jit::code_for({text, name, options}, "sm_90"); });
  };
  const std::string wrong = said("__global__ void scale(\nwrong", "scale");
  CHECK(mentions(wrong,
                 "UsageError: [kernel scale] the source does not compile (NVRTC 13.0, sm_90): "
                 "NVRTC_ERROR_COMPILATION\nkernel.cu(2): error: that is wrong"));
  const std::string name = said(kScale.text, "scal");
  CHECK(mentions(
      name, "[kernel scal] the source has no such kernel; it has scale; did you mean 'scale'?"));
  CHECK(mentions(said(kScale.text, "scale", {"-unknown"}),
                 "NVRTC 13.0 does not take these options: sm_90 -unknown"));
  CHECK(counted() == Counted{0, 0, 0});
}

TEST_CASE("row 94: what is compiled for a device, and without NVRTC") {
  FakeNvrtc nvrtc;
  CHECK(jit::arch_for(9, 0) == "sm_90");
  CHECK(jit::arch_for(12, 0) == "compute_90");  // the driver compiles the rest
  CHECK(jit::arch_for(8, 6) == "compute_80");
  CHECK(mentions(message_of([] { jit::arch_for(7, 0); }),
                 "NVRTC 13.0 compiles for compute capability 7.5 and up; the device has 7.0"));
  nvrtc.found = {nullptr, "WT_NVRTC=off"};
  const std::string none = message_of([] { (void)jit::code_for(kScale, "sm_90"); });
  CHECK(mentions(none, "NotAvailable: [kernel scale] kernels are compiled by NVRTC: WT_NVRTC=off"));
  CHECK(mentions(none, "/usr/local/cuda"));
}

TEST_CASE(
    "row 94: whatever is done to a compiled kernel's file, it is taken or refused with its place") {
  const TempDir dir;
  jit::write_kernel_file(dir / "k", "the key", {"scale", "the code"});
  const std::string good = slurp(dir / "k");
  REQUIRE(wt_test::takes_kernel(good));
  const std::vector<std::string_view> words{"\xff", std::string_view("\0\0\0\0", 4), "wt-jit 1"};
  FuzzPlan plan(2'000, 94);
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i)
    accepted += wt_test::takes_kernel(mutated(good, plan.random, words));
  CHECK(accepted < plan.cases / 10);
  for (size_t n = 0; n < good.size(); ++n) CHECK_FALSE(wt_test::takes_kernel(good.substr(0, n)));
}
