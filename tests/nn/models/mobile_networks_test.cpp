// MobileNets and EfficientNet beside torchvision's.
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/nn/efficientnet.h"
#include "warptape/nn/mobilenet.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::EfficientNet;
using models::MobileNetV2;
using models::MobileNetV3;

namespace {

template <class M>
void check_whole_network(const std::string& reference, const std::function<M()>& make) {
  check_whole<M>(reference, make, [](M& net) { return net(hashed({2, 3, 64, 64}).to(f32)); });
}
template <class M>
void check_narrow_network(const std::string& reference, const std::function<M()>& make) {
  check_small<M>(
      {.reference = reference}, make,
      [](M& net) {
        return net(hashed({4, 3, 32, 32}));
      },
      hashed_classes());
}

double mean_square(const Tensor& t) { return mean(square(t)).item(); }

}  // namespace

TEST_CASE("row 84: MobileNets of full size have torchvision's names, counts and outputs",
          "[models][torch]") {
  const LeakGuard guard;
  check_whole_network<MobileNetV2>("mobilenet_v2", [] { return models::mobilenet_v2(); });
  check_whole_network<MobileNetV3>("mobilenet_v3_small",
                                   [] { return models::mobilenet_v3_small(); });
}

TEST_CASE("row 85: EfficientNet-B0 has torchvision's names, counts and outputs",
          "[models][torch]") {
  const LeakGuard guard;
  check_whole_network<EfficientNet>("efficientnet_b0", [] { return models::efficientnet_b0(); });
}

TEST_CASE("small mobile networks: torchvision's gradients and five steps of training",
          "[models][torch]") {
  check_narrow_network<MobileNetV2>("mobilenet_v2_narrow", [] {
    return MobileNetV2({{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 1, 1}},
                       {.classes = 10, .width = 0.25, .dropout = 0});
  });
  check_narrow_network<MobileNetV3>("mobilenet_v3_narrow", [] {
    return MobileNetV3({{8, 3, 8, 8, true, false, 2},
                        {8, 5, 24, 16, false, true, 1},
                        {16, 5, 40, 16, true, true, 1}},
                       32, {.classes = 10, .dropout = 0});
  });
  check_narrow_network<EfficientNet>("efficientnet_narrow", [] {
    return EfficientNet({{1, 3, 1, 8, 8, 1}, {6, 5, 2, 8, 16, 2}}, 64,
                        {.classes = 10, .dropout = 0, .stochastic_depth = 0});
  });
}

TEST_CASE("mobile networks begin as torchvision's", "[models]") {
  manual_seed(1);
  const MobileNetV2 v2 = models::mobilenet_v2({.classes = 10});
  // N(0, 0.01^2), and a depthwise 3 x 3 by its fan out of 9.
  CHECK(std::abs(mean_square(v2.parameter("classifier.1.weight")) / 1e-4 - 1) < 0.1);
  const Tensor depthwise = v2.parameter("features.7.conv.1.0.weight");
  CHECK(std::abs(mean_square(depthwise) / (2.0 / (9 * double(depthwise.size(0)))) - 1) < 0.2);
  CHECK(mean_square(v2.parameter("classifier.1.bias")) == 0);

  const EfficientNet b0 = models::efficientnet_b0({.classes = 10});
  CHECK(max(b0.parameter("classifier.1.weight")).item() <= 1 / std::sqrt(10.0));
  CHECK(mean_square(b0.parameter("classifier.1.bias")) == 0);
  models::MBConv block{8, 8, {6, 3, 1, 8, 8, 2}, 1, 0.5};
  CHECK(block.stochastic_depth.p() == 0.5);
  CHECK(block.stochastic_depth.name() == "stochastic_depth");
}

TEST_CASE("stochastic depth drops whole samples and keeps the mean", "[layers]") {
  manual_seed(3);
  nn::StochasticDepth drop{0.25};
  const Tensor y = drop(ones({4000, 2, 1, 3}));
  const Tensor samples = mean(y, {1, 2, 3});
  i64 kept = 0;
  for (const double v : values(samples)) {
    CHECK((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
    kept += v != 0;
  }
  CHECK(std::abs(double(kept) - 3000) < 140);  // 5 standard deviations
  drop.eval();
  CHECK(max(abs(drop(ones({5, 2})) - 1)).item() == 0);
  CHECK_THROWS_AS(nn::StochasticDepth{1.5}, UsageError);
  drop.train();
  CHECK_THROWS_AS(drop(tensor(1.0)), ShapeError);
}
