// Batch norm's elementwise halves through cuDNN's graphs, over a fake cuDNN on a fake runtime.
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_cudnn.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;
using wt_test::FakeCudnn;
using wt_test::worst;

namespace {

const Device kCuda = Device::cuda(0);

struct Case {
  const char* name;
  i64 samples, channels, inside;
  DType type = DType::f32;
  bool columns = false;  // channels are innermost
  bool weight = true, bias = true, sums = true;
};

struct Laid {
  Tensor memory, seen;
  View view() const { return view_of(seen.impl()); }
  std::vector<double> values() const {
    return memory.to(Device::cpu()).to(f64).to_vector<double>();
  }
};
Laid image(const Case& c, u64 seed, Device d) {
  Laid o;
  o.memory =
      tensor(wt_test::random_values(c.samples * c.channels * c.inside, seed)).to(c.type).to(d);
  o.seen = c.columns ? o.memory.reshape({c.samples, c.inside, c.channels}).transpose(1, 2)
                     : o.memory.reshape({c.samples, c.channels, c.inside});
  return o;
}

struct Results {
  std::vector<double> y, gx;
};
Results both(const Case& c, Device d) {
  const bool cudnn = d.kind == DeviceKind::cuda;
  const Launch l{.device = d};
  const auto row = [&](i64 rows, u64 seed, DType t) {
    return tensor(wt_test::random_values(rows * c.channels, seed)).to(t).to(d);
  };
  const Tensor stats = row(3, 1, f32).reshape({3, c.channels}),
               sums = row(2, 2, f32).reshape({2, c.channels}), weight = row(1, 3, c.type),
               bias = row(1, 4, c.type);
  const auto maybe = [](bool there, const Tensor& t) { return there ? view_of(t.impl()) : View{}; };
  const Laid x = image(c, 5, d), gy = image(c, 6, d), y = image(c, 7, d), gx = image(c, 8, d);
  const ChannelNormForwardArgs f{
      y.view(), x.view(), view_of(stats.impl()), maybe(c.weight, weight), maybe(c.bias, bias), 0};
  if (cudnn) REQUIRE(channel_norm_forward_cudnn_why_not(f) == nullptr);
  cudnn ? channel_norm_forward_cudnn(f, l) : run(f, l);
  const ChannelNormBackwardArgs b{
      gx.view(),           gy.view(), x.view(), view_of(stats.impl()), maybe(c.weight, weight),
      maybe(c.sums, sums), 0};
  if (cudnn) REQUIRE(channel_norm_backward_cudnn_why_not(b) == nullptr);
  cudnn ? channel_norm_backward_cudnn(b, l) : run(b, l);
  return {y.values(), gx.values()};
}

}  // namespace

TEST_CASE("cudnn: batch norm, elementwise") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case cases[] = {
      {"planes", 2, 3, 5},
      {"columns", 2, 3, 5, DType::f32, true},
      {"f16", 2, 4, 6, DType::f16, true},
      {"bf16", 3, 2, 4, DType::bf16},
      {"no weight", 2, 3, 4, DType::f32, true, false},
      {"no bias", 2, 3, 4, DType::f32, false, true, false},
      {"neither", 2, 3, 4, DType::f16, false, false, false},
      {"constants", 2, 3, 4, DType::f32, false, true, true, false},
      {"constants alone", 2, 3, 4, DType::f32, true, false, false, false},
      {"rows", 4, 3, 1},
      {"one sample", 1, 3, 4, DType::f32, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const int before = cudnn.calls("execute");
    const Results cpu = both(c, Device::cpu()), gpu = both(c, kCuda);
    CHECK(cudnn.calls("execute") == before + 2);
    const double bound = c.type == DType::f32 ? 1e-5 : c.type == DType::f16 ? 5e-3 : 4e-2;
    CHECK(worst(cpu.y, gpu.y) < bound);
    CHECK(worst(cpu.gx, gpu.gx) < bound);
  }
  CHECK(cudnn.violations() == std::vector<std::string>{});
  CHECK(cuda.violations() == std::vector<std::string>{});
}

TEST_CASE("cudnn: batch norm that it does not take") {
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case c{"planes", 2, 4, 6};
  const Laid x = image(c, 1, kCuda), y = image(c, 2, kCuda);
  Case turned = c;
  turned.columns = true;
  const Laid other = image(turned, 3, kCuda);
  const Tensor stats = full({3, 4}, 1, {.dtype = f32}).to(kCuda);
  ChannelNormForwardArgs a{y.view(), x.view(), view_of(stats.impl()), {}, {}, 0};
  REQUIRE(channel_norm_forward_cudnn_why_not(a) == nullptr);
  const auto refuses = [&](auto change, const char* why) {
    ChannelNormForwardArgs changed = a;
    change(changed);
    const char* said = channel_norm_forward_cudnn_why_not(changed);
    REQUIRE(said != nullptr);
    CHECK(std::string(said) == why);
  };
  refuses([](auto& p) { p.groups = 2; }, "takes batch norm only");
  refuses([](auto& p) { p.activation = Activation::relu; }, "has no activation behind the norm");
  refuses([&](auto& p) { p.y = p.x; }, "writes its result beside its operands only");
  refuses([&](auto& p) { p.y = other.view(); },
          "takes tensors without gaps in one order of their axes only");
  const Tensor gaps = full({2, 4, 12}, 1, {.dtype = f32}).to(kCuda).slice(2, {0, 12, 2});
  refuses([&](auto& p) { p.x = view_of(gaps.impl()); },
          "takes tensors without gaps in one order of their axes only");
  const Tensor wide = full({2, 4, 6}, 1, {.dtype = f64}).to(kCuda);
  refuses([&](auto& p) { p.x = view_of(wide.impl()); }, "takes f32, f16 and bf16 only");
  CHECK(cudnn.violations() == std::vector<std::string>{});
}
