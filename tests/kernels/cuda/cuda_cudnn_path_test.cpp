// Operators whose kernels are named `cudnn`, through a fake cuDNN on a device that has our own
// kernels beside it: what they make of it, and what happens where cuDNN cannot. Needs a GPU or an
// emulated one.
#include <memory>

#include "warptape/autograd/ops.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cudnn.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCudnn;
using wt_test::warnings;
using wt_test::Warnings;
using wt_test::worst;

namespace {
const Device kCuda = Device::cuda(0);
}

TEST_CASE("cudnn: operators on a device, and our own kernels where it cannot") {
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str());
  const Environment off("WT_CUDNN_PLANS", "off");
  const Warnings heard;
  const auto train = [&](Device d) {
    Tensor x = tensor(wt_test::random_values(2 * 3 * 6 * 6, 1)).to(f32).reshape({2, 3, 6, 6}),
           w = tensor(wt_test::random_values(4 * 3 * 3 * 3, 2)).to(f32).reshape({4, 3, 3, 3}),
           b = tensor(wt_test::random_values(4, 3)).to(f32);
    x = x.to(d).set_requires_grad(), w = w.to(d).set_requires_grad();
    b = b.to(d).set_requires_grad();
    const Tensor y = conv2d(x, w, b, {.stride = 2, .padding = 1});
    (y * y).sum().backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& t : {y.detach(), x.grad(), w.grad(), b.grad()})
      all.push_back(t.to(Device::cpu()).to(f64).to_vector<double>());
    return all;
  };
  const auto cpu = train(Device::cpu());
  const auto agrees = [&] {
    const VariantScope forward("conv_forward", "cudnn"), data("conv_backward_input", "cudnn"),
        filter("conv_backward_weight", "cudnn");
    const auto gpu = train(kCuda);
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst(cpu[i], gpu[i]) < 1e-4);
  };
  {
    FakeCudnn cudnn;
    train(kCuda);
    CHECK(cudnn.calls("execute") == 0);  // never without being asked for
    agrees();
    CHECK(cudnn.calls("execute") == 3);
    CHECK(warnings().empty());
    cudnn.engines[0].execute_status = kCudnnNotSupported;
    agrees();
    CHECK(warnings().size() == 3);
    for (const std::string& w : warnings())
      CHECK(mentions(w, "cuDNN cannot: cudnnBackendExecute: CUDNN_STATUS_NOT_SUPPORTED"));
    CHECK(cudnn.violations() == std::vector<std::string>{});
  }
  {
    FakeCudnn cudnn;
    cudnn.engines.clear();
    warnings().clear();
    wt::detail::forget_warnings();
    agrees();
    CHECK(cudnn.calls("execute") == 0);
    REQUIRE(warnings().size() == 3);
    CHECK(mentions(warnings()[0], "it has no engine; our own kernel \""));
  }
  {
    FakeCudnn cudnn;
    cudnn.create_status = kCudnnNotInitialized;
    agrees();
  }
  wt::detail::replace_cudnn(nullptr, "there is none");
  try {
    agrees();
    FAIL("nothing was thrown");
  } catch (const UsageError& e) {
    CHECK(mentions(e.what(), "variant \"cudnn\" on cuda"));
    CHECK(mentions(e.what(), "there is none"));
  }
  wt::detail::restore_cudnn();
}

namespace {

using Values = std::vector<std::vector<double>>;

Tensor made(Device d, Shape shape, DType t, u64 seed) {
  return tensor(wt_test::random_values(numel_of(shape), seed)).to(t).reshape(shape).to(d);
}
Values values_of(std::initializer_list<Tensor> tensors) {
  Values all;
  for (const Tensor& t : tensors) all.push_back(t.to(Device::cpu()).to(f64).to_vector<double>());
  return all;
}

Values attend(Device d) {
  Tensor q = made(d, {2, 4, 6, 8}, f16, 1).set_requires_grad(),
         k = made(d, {2, 2, 5, 8}, f16, 2).set_requires_grad(),
         v = made(d, {2, 2, 5, 8}, f16, 3).set_requires_grad();
  const Tensor y =
      scaled_dot_product_attention(q, k, v, AttentionOptions{.causal = true, .enable_gqa = true});
  (y * y).sum().backward();
  return values_of({y.detach(), q.grad(), k.grad(), v.grad()});
}
Values pool(Device d) {
  Tensor x = made(d, {2, 3, 7, 7}, f32, 1).set_requires_grad();
  const Tensor y = avg_pool2d(x, 3, {.stride = 2, .padding = 1});
  (y * y).sum().backward();
  const NoGrad no_grad;
  return values_of({y.detach(), x.grad(), max_pool2d(x, 2)});
}
Values normalise(Device d) {
  Tensor x = made(d, {4, 3, 5, 5}, f32, 1).set_requires_grad(),
         w = made(d, {3}, f32, 2).set_requires_grad(), b = made(d, {3}, f32, 3);
  const Tensor y = batch_norm(x, {.weight = w, .bias = b, .training = true});
  (y * y * y).sum().backward();
  return values_of({y.detach(), x.grad(), w.grad()});
}

// By cuDNN, `graphs` of them; where its engine cannot, by our own kernels and with a line a kernel.
void check_path(Values (*train)(Device), std::initializer_list<const char*> contracts,
                double bound) {
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str());
  const Environment off("WT_CUDNN_PLANS", "off");
  const Warnings heard;
  const Values cpu = train(Device::cpu());
  FakeCudnn cudnn;
  train(kCuda);
  CHECK(cudnn.calls("execute") == 0);  // never without being asked for
  const auto agrees = [&] {
    std::vector<std::unique_ptr<VariantScope>> scopes;
    for (const char* contract : contracts)
      scopes.push_back(std::make_unique<VariantScope>(contract, "cudnn"));
    const Values gpu = train(kCuda);
    while (!scopes.empty()) scopes.pop_back();
    REQUIRE(gpu.size() == cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst(cpu[i], gpu[i]) < bound);
  };
  agrees();
  CHECK(cudnn.calls("execute") == int(contracts.size()));
  CHECK(warnings().empty());
  cudnn.engines[0].execute_status = kCudnnNotSupported;
  agrees();
  CHECK(warnings().size() == contracts.size());
  for (const std::string& w : warnings())
    CHECK(mentions(w, "cuDNN cannot: cudnnBackendExecute: CUDNN_STATUS_NOT_SUPPORTED"));
  CHECK(cudnn.violations() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("cudnn: attention on a device, and our own kernels where it cannot") {
  check_path(attend, {"attention_forward", "attention_backward"}, 2e-2);
}
TEST_CASE("cudnn: pooling on a device, and our own kernels where it cannot") {
  check_path(pool, {"avg_pool_forward", "avg_pool_backward", "max_pool_forward"}, 1e-5);
}
TEST_CASE("cudnn: batch norm on a device, and our own kernels where it cannot") {
  check_path(normalise, {"channel_norm_forward", "channel_norm_backward"}, 1e-4);
}

TEST_CASE("cudnn: a convolution's epilogue is a second pass, of the sums that cuDNN made") {
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str());
  const Environment off("WT_CUDNN_PLANS", "off");
  const auto train = [&](Device d, Activation f) {
    const auto leaf = [d](const Shape& s, u64 seed) {
      return tensor(wt_test::random_values(numel_of(s), seed))
          .to(f32)
          .reshape(s)
          .to(d)
          .set_requires_grad();
    };
    const Tensor x = leaf({2, 3, 6, 6}, 1), w = leaf({4, 3, 3, 3}, 2), b = leaf({4}, 3),
                 r = leaf({2, 4, 4, 4}, 4);
    const Tensor y = fused_conv2d(x, w, {.bias = b, .residual = r, .activation = f});
    (y * y).sum().backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& t : {y.detach(), x.grad(), w.grad(), b.grad(), r.grad()})
      all.push_back(t.to(Device::cpu()).to(f64).to_vector<double>());
    return all;
  };
  FakeCudnn cudnn;
  const VariantScope forward("conv_forward", "cudnn");
  for (const Activation f : {Activation::none, Activation::relu, Activation::gelu}) {
    const auto cpu = [&] {
      const VariantScope own("conv_forward", "direct");
      return train(Device::cpu(), f);
    }();
    const int before = cudnn.calls("execute");
    const auto gpu = train(kCuda, f);
    CHECK(cudnn.calls("execute") == before + 1);
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst(cpu[i], gpu[i]) < 1e-4);
  }
  CHECK(cudnn.violations() == std::vector<std::string>{});
}
