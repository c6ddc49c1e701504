// Convolutions by name through a fake cuDNN on a device that has our own kernels beside it: what
// operators make of it, and what happens where cuDNN cannot. Needs a GPU or an emulated one.
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
