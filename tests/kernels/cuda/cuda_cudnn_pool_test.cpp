// Pooling through cuDNN's resampling, over a fake cuDNN on a fake runtime.
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
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
  std::vector<i64> in, out;
  i64 kernel = 1, stride = 1, padding = 0;
  DType type = DType::f32;
  bool channels_last = false, count_padding = true, adaptive = false;
  i64 divisor = 0;
};

PoolShape shape_of(const Case& c) {
  PoolShape s;
  s.batch = 2, s.channels = 3, s.dtype = c.type;
  s.adaptive = c.adaptive, s.count_padding = c.count_padding, s.divisor = c.divisor;
  const int skip = 3 - int(c.in.size());
  for (int d = 0; d < 3; ++d) {
    const bool missing = d < skip;
    s.in[d] = missing ? 1 : c.in[size_t(d - skip)];
    s.out[d] = missing ? 1 : c.out[size_t(d - skip)];
    s.kernel[d] = missing ? 1 : c.kernel;
    s.stride[d] = missing ? 1 : c.stride;
    s.padding[d] = missing ? 0 : c.padding;
    s.dilation[d] = 1;
  }
  return s;
}

struct Laid {
  Tensor memory;
  ConvTensor view;
  std::vector<double> values() const {
    return memory.to(Device::cpu()).to(f64).to_vector<double>();
  }
};
Laid image(const Case& c, const PoolShape& s, const i64* sizes, u64 seed, Device d) {
  ConvTensor t;
  i64 next = 1;
  const auto take = [&](i64& stride, i64 size) { stride = next, next *= size; };
  if (c.channels_last) take(t.channel, s.channels);
  for (int i = 2; i >= 0; --i) take(t.at[i], sizes[i]);
  if (!c.channels_last) take(t.channel, s.channels);
  take(t.batch, s.batch);
  Laid o{tensor(wt_test::random_values(next, seed)).to(c.type).to(d), t};
  o.view.data = o.memory.impl()->data;
  return o;
}

struct Results {
  std::vector<double> average, gradient, most;
};
Results three(const Case& c, Device d) {
  const bool cudnn = d.kind == DeviceKind::cuda;
  const PoolShape s = shape_of(c);
  const Launch l{.device = d};
  Results r;
  {
    const Laid x = image(c, s, s.in, 1, d), y = image(c, s, s.out, 2, d);
    const AvgPoolForwardArgs a{s, y.view, x.view};
    if (cudnn) REQUIRE(avg_pool_forward_cudnn_why_not(a) == nullptr);
    cudnn ? avg_pool_forward_cudnn(a, l) : run(a, l);
    r.average = y.values();
  }
  {
    const Laid gx = image(c, s, s.in, 3, d), gy = image(c, s, s.out, 4, d);
    const AvgPoolBackwardArgs a{s, gx.view, gy.view};
    if (cudnn) REQUIRE(avg_pool_backward_cudnn_why_not(a) == nullptr);
    cudnn ? avg_pool_backward_cudnn(a, l) : run(a, l);
    r.gradient = gx.values();
  }
  {
    const Laid x = image(c, s, s.in, 5, d), y = image(c, s, s.out, 6, d);
    const MaxPoolForwardArgs a{s, y.view, {}, {}, x.view};
    if (cudnn) REQUIRE(max_pool_forward_cudnn_why_not(a) == nullptr);
    cudnn ? max_pool_forward_cudnn(a, l) : run(a, l);
    r.most = y.values();
  }
  return r;
}

}  // namespace

TEST_CASE("cudnn: pooling") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case cases[] = {
      {"2d", {5, 6}, {2, 3}, 2, 2, 0},
      {"padded", {5, 6}, {3, 3}, 3, 2, 1},
      {"inside only", {5, 6}, {3, 3}, 3, 2, 1, DType::f32, false, false},
      // The last window reaches beyond the padding, which counts for nothing.
      {"ceiling", {6, 6}, {4, 4}, 3, 2, 1, DType::f32, false, false},
      {"divisor", {6, 6}, {4, 4}, 3, 2, 1, DType::f32, false, true, false, 9},
      {"divisor beside it", {6, 6}, {4, 4}, 3, 2, 1, DType::f32, false, false, false, 9},
      {"channels last", {5, 6}, {3, 4}, 2, 2, 1, DType::f16, true},
      {"bf16", {4, 4}, {2, 2}, 2, 2, 0, DType::bf16, true},
      {"rest", {8, 7}, {2, 2}, 3, 3, 0},
      {"1d", {9}, {5}, 3, 2, 1},
      {"3d", {3, 4, 5}, {2, 3, 3}, 2, 2, 1},
      {"adaptive", {6, 8}, {3, 2}, 4, 1, 0, DType::f32, false, true, true},
      {"whole", {4, 3}, {1, 1}, 4, 1, 0, DType::f16, true, true, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const int before = cudnn.calls("execute");
    Case windows = c;
    if (std::string(c.name) == "adaptive") windows.kernel = 4;
    const Results cpu = three(windows, Device::cpu()), gpu = three(windows, kCuda);
    CHECK(cudnn.calls("execute") == before + 3);
    const double bound = c.type == DType::f32 ? 1e-6 : c.type == DType::f16 ? 2e-3 : 2e-2;
    CHECK(worst(cpu.average, gpu.average) < bound);
    CHECK(worst(cpu.gradient, gpu.gradient) < bound);
    CHECK(worst(cpu.most, gpu.most) == 0);
  }
  CHECK(cudnn.violations() == std::vector<std::string>{});
  CHECK(cuda.violations() == std::vector<std::string>{});
}

TEST_CASE("cudnn: pooling that it does not take") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case c{"2d", {6, 6}, {4, 4}, 3, 2, 1, DType::f32, false, false};
  const PoolShape s = shape_of(c);
  const Laid x = image(c, s, s.in, 1, kCuda), y = image(c, s, s.out, 2, kCuda);
  const AvgPoolForwardArgs a{s, y.view, x.view};
  REQUIRE(avg_pool_forward_cudnn_why_not(a) == nullptr);
  const auto refuses = [&](auto change, const char* why) {
    AvgPoolForwardArgs changed = a;
    change(changed);
    const char* said = avg_pool_forward_cudnn_why_not(changed);
    REQUIRE(said != nullptr);
    CHECK(std::string(said) == why);
  };
  refuses([](auto& p) { p.shape.dtype = f64; }, "takes f32, f16 and bf16 only");
  refuses([](auto& p) { p.shape.batch = 0; }, "takes no empty tensors");
  refuses([](auto& p) { p.shape.count_padding = true; },
          "counts no window that reaches beyond the padding");
  refuses([](auto& p) { p.shape.divisor = 8; }, "divides by the window's size only");
  refuses([](auto& p) { p.shape.dilation[2] = 2; }, "takes no windows with gaps");
  refuses([](auto& p) { p.shape.padding[2] = 3; }, "takes no padding as wide as the window");
  refuses([](auto& p) { p.shape.out[2] = 5; }, "takes no window outside the image");
  refuses([](auto& p) { p.shape.out[2] = 2; },
          "takes no image of which a window's step at the end is left out");
  refuses([](auto& p) { p.shape.adaptive = true; }, "takes adaptive windows of one length only");
  refuses([](auto& p) { p.x.channel = 0; }, "takes no operand that repeats or goes backwards");
  Case innermost = c;
  innermost.channels_last = true;
  const Laid gx = image(innermost, s, s.in, 3, kCuda), gy = image(innermost, s, s.out, 4, kCuda);
  const AvgPoolBackwardArgs back{s, gx.view, gy.view};
  REQUIRE(avg_pool_backward_cudnn_why_not(back) != nullptr);
  CHECK(std::string(avg_pool_backward_cudnn_why_not(back)) ==
        "promises no order of sums where windows overlap and channels are innermost");
  MaxPoolForwardArgs most{s, y.view, y.view, {}, x.view};
  REQUIRE(max_pool_forward_cudnn_why_not(most) != nullptr);
  CHECK(std::string(max_pool_forward_cudnn_why_not(most)) ==
        "does not say which element is the largest");
  CHECK(cudnn.violations() == std::vector<std::string>{});
}
