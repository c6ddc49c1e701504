// RuntimeKernel over a compiler and a device of the tests' own: which launches there are, with
// what, and which are refused before anything is changed. runtime_kernel_path_test.cpp computes.
#include "warptape/autograd/runtime_kernel.h"

#include "warptape/autograd/ops.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/factories.h"
#include "warptape/core/profile.h"
#include "warptape/core/stream.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_nvrtc.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;
using wt_test::FakeNvrtc;

namespace {

const Device kCuda = Device::cuda(0);
const char* const kText = "__global__ void scale(float* y, const float* x, float a, long long n);";

struct Stage {
  Environment cache{"WT_KERNEL_CACHE", "off"};
  std::vector<double> seen;  // a and n of each launch that ran, which may be when `cuda` ends
  FakeCuda cuda{2};
  FakeNvrtc nvrtc;
  Stage() {
    const auto run = [this](const std::vector<const void*>& p) {
      seen.push_back(*static_cast<const float*>(p[2]));
      seen.push_back(double(*static_cast<const i64*>(p[3])));
      float* y;
      const float* x;
      std::memcpy(&y, p[0], sizeof y);
      std::memcpy(&x, p[1], sizeof x);
      for (i64 i = 0; i < *static_cast<const i64*>(p[3]); ++i) y[i] = float(seen[0]) * x[i];
    };
    cuda.kernels["scale"] = {{8, 8, 4, 8}, run};
  }
};

Tensor on_cuda(const std::vector<float>& v, Device d = kCuda) { return tensor(v).to(d); }

}  // namespace

TEST_CASE("row 94: a launch has its grid, its arguments and the current stream") {
  Stage stage;
  const RuntimeKernel scale{kText, "scale"};
  const Tensor x = on_cuda({1, 2, 3});
  const Tensor y = on_cuda({0, 0, 0});
  const u32 x_version = x.version(), y_version = y.version();
  scale.launch({.blocks = {4, 2}, .threads = 256, .shared = 16}, {written(y), x, 2.5f, i64{3}});
  CHECK(stage.cuda.launched == std::vector<std::string>{"scale (4,2,1) (256,1,1) 16 default"});
  CHECK(y.to_vector<float>() == std::vector<float>{2.5f, 5, 7.5f});
  CHECK(stage.seen == std::vector<double>{2.5, 3});
  CHECK(y.version() == y_version + 1);
  CHECK(x.version() == x_version);

  const Stream side(kCuda);
  {
    const StreamScope on(side);
    scale.launch({.threads = 32}, {written(y), x, 1.0f, i64{3}});
  }
  CHECK(stage.cuda.launched.back() ==
        "scale (1,1,1) (32,1,1) 0 " + stage.cuda.name_of(side.native()));
  side.synchronize();
  // Above 48 KiB it has to be asked for.
  scale.launch({.shared = 100'000}, {written(y), x, 1.0f, i64{3}});
  CHECK(stage.cuda.calls("allow_shared") == 1);
  stage.cuda.run_all();
  CHECK(stage.cuda.violations() == std::vector<std::string>{});
}

TEST_CASE("row 94: an object compiles once a kind of device; the next object finds it in memory") {
  Stage stage;
  const RuntimeKernel one{kText, "scale"}, copy = one, another{kText, "scale"};
  one.prepare();
  copy.prepare();
  one.prepare(Device::cuda(1));  // the same capability
  another.prepare();
  const RuntimeKernel::Stats s = RuntimeKernel::stats();
  CHECK(s.compiled == 1);
  CHECK(s.memory_hits == 2);
  CHECK(s.disk_hits == 0);
  CHECK(stage.cuda.calls("load_code") == 1);
  CHECK(another.name() == "scale");
}

TEST_CASE("row 94: a device that takes no machine code is given PTX, unless code was asked for") {
  Stage stage;
  stage.cuda.refuses = "ELF";
  const Tensor x = on_cuda({1}), y = on_cuda({0});
  const RuntimeKernel scale{kText, "scale"};
  scale.launch({}, {written(y), x, 3.0f, i64{1}});
  CHECK(y.to_vector<float>() == std::vector<float>{3});
  CHECK(RuntimeKernel::stats().compiled == 2);
  const RuntimeKernel asked{kText, "scale", {.arch = "sm_80"}};
  CHECK(mentions(message_of([&] { asked.prepare(); }),
                 "UsageError: [kernel scale] code for sm_80 does not run on cuda:0, whose compute "
                 "capability is 9.0 (CUDA error 218)"));
}

TEST_CASE("row 94: what a launch cannot be is said before anything changes") {
  Stage stage;
  const RuntimeKernel scale{kText, "scale"};
  const Tensor x = on_cuda({1, 2, 3, 4}), y = on_cuda({0, 0, 0, 0});
  const u32 version = y.version();
  const auto said = [&](const KernelLaunch& l, std::initializer_list<KernelArgument> a) {
    return message_of([&] { scale.launch(l, a); });
  };
  const std::string grid = said({.blocks = {0, 70'000}, .threads = {64, 32}, .shared = 1 << 20},
                                {written(y), x, 2.0, i64{4}, 1});
  CHECK(
      mentions(grid, "UsageError: [kernel scale] blocks (0, 70000, 1), of which there are 1 to "));
  CHECK(mentions(grid, "; threads (64, 32, 1), of which a block has 1 to "));
  CHECK(mentions(grid, "; 1048576 bytes of shared memory, of which a block has at most 232448"));
  CHECK(mentions(grid, "; it has 4 parameters, and 5 arguments are given"));
  CHECK(mentions(grid, "; argument 3 has 8 bytes, the parameter 4 (2.0f is a float, 2.0 is not)"));
  CHECK(mentions(grid, "\n  at "));
  CHECK(mentions(grid, "runtime_kernel_test.cpp:"));
  CHECK(mentions(said({}, {written(y), tensor({1.0, 2.0}), 2.0f, i64{1}}),
                 "PlacementError: [kernel scale] argument 2 is on cpu, one before on cuda"));
  CHECK(mentions(said({}, {written(y), on_cuda({1}, Device::cuda(1)), 2.0f, i64{1}}),
                 "argument 2 is on cuda:1, one before on cuda"));
  CHECK(mentions(said({}, {tensor({1.0})}), "argument 1 is on cpu, and the kernel runs on cuda"));
  CHECK(mentions(said({}, {written(y), Tensor(), 2.0f, i64{1}}),
                 "argument 2 is an undefined tensor; a pointer to nothing is nullptr"));
  CHECK(mentions(said({}, {written(y), x[Slice{0, 4, 2}], 2.0f, i64{1}}),
                 "argument 2 is not contiguous, and a kernel sees a pointer alone"));
  Tensor leaf = on_cuda({1, 2});
  leaf.set_requires_grad();
  CHECK(mentions(said({}, {written(y), leaf, 2.0f, i64{1}}),
                 "argument 2 requires grad, and the tape does not see what a kernel reads"));
  CHECK(stage.cuda.launched.empty());
  CHECK(y.version() == version);
  {
    const NoGrad off;
    scale.launch({}, {written(y), leaf, 2.0f, i64{1}});
  }
  CHECK(stage.cuda.launched.size() == 1);
  CHECK(mentions(message_of([&] { scale.prepare(Device::cpu()); }),
                 "PlacementError: [kernel scale] it runs on cuda, and the device is cpu"));
}

TEST_CASE("row 94: a launch that the device refuses is a DeviceError of its name") {
  Stage stage;
  const RuntimeKernel scale{kText, "scale"};
  const Tensor x = on_cuda({1}), y = on_cuda({0});
  scale.prepare();
  stage.cuda.fail("launch_kernel", 701);
  CHECK(mentions(message_of([&] {
                   scale.launch({}, {written(y), x, 2.0f, i64{1}});
                 }),
                 "DeviceError: [kernel scale]: fake error (CUDA error 701)"));
  stage.cuda.fail("launch_kernel", 0);
  scale.launch({}, {written(y), x, 2.0f, i64{1}});
  CHECK(y.to_vector<float>() == std::vector<float>{2});
}

TEST_CASE("row 94: a profile has the launch under the kernel's name") {
  Stage stage;
  stage.cuda.works = true;
  const RuntimeKernel scale{kText, "scale"};
  const Tensor x = on_cuda({1, 2}), y = on_cuda({0, 0});
  struct Ears final : profiler::Observer {
    std::vector<std::string> titles{};
    double bytes = 0;
    void begin(const profiler::Range& r) noexcept override {
      if (r.kind == profiler::Kind::kernel) titles.push_back(r.title()), bytes = r.bytes;
    }
  } ears;
  {
    const profiler::ObserverScope scope(ears);
    scale.launch({}, {written(y), x, 2.0f, i64{2}});
  }
  REQUIRE(ears.titles.size() == 1);
  CHECK(mentions(ears.titles[0], "scale:runtime <- runtime_kernel_test.cpp:"));
  CHECK(ears.bytes == 16);
}

TEST_CASE("row 94: without a cuda device it says why") {
  if (cuda::is_available()) SKIP_TEST("this machine has a cuda device");
  const RuntimeKernel scale{kText, "scale"};
  const std::string said = message_of([&] { scale.launch({}, {i64{1}}); });
  CHECK(mentions(said, "NotAvailable: "));
  CHECK(mentions(said, "cuda"));
  CHECK(message_of([&] { scale.prepare(); }) == said);
}
