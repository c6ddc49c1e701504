// ResNets beside torchvision's.
#include "warptape/nn/resnet.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::ResNet;
using models::ResNetBlock;

namespace {

void check_resnet(const std::string& reference, const std::function<ResNet()>& make, i64 size) {
  check_whole<ResNet>(reference, make, [size](ResNet& net) {
    return net(hashed({2, 3, size, size}).to(f32));
  });
}
void check_small_resnet(const std::string& reference, const std::function<ResNet()>& make,
                        i64 size) {
  check_small<ResNet>(
      {.reference = reference}, make,
      [size](ResNet& net) {
        return net(hashed({4, 3, size, size}));
      },
      hashed_classes());
}

}  // namespace

TEST_CASE("row 82: ResNets of full size have torchvision's names, counts and outputs",
          "[models][torch]") {
  const LeakGuard guard;
  check_resnet(
      "resnet18", [] { return models::resnet18(); }, 64);
  check_resnet(
      "resnet34", [] { return models::resnet34(); }, 64);
  check_resnet(
      "resnet50", [] { return models::resnet50(); }, 64);
  check_resnet(
      "resnet18_cifar", [] { return models::resnet18({.classes = 10, .cifar_stem = true}); }, 32);
}

TEST_CASE("small ResNets: torchvision's gradients and five steps of training", "[models][torch]") {
  check_small_resnet(
      "resnet_basic",
      [] {
        return ResNet{
            ResNetBlock::basic, {1, 2, 1, 1}, {.classes = 10, .width = 4, .cifar_stem = true}};
      },
      32);
  check_small_resnet(
      "resnet_bottleneck",
      [] {
        return ResNet{ResNetBlock::bottleneck, {1, 2, 1, 1}, {.classes = 10, .width = 4}};
      },
      64);
}

TEST_CASE("ResNets begin as torchvision's: by the fan out, norms as 1 and 0, blocks as identities",
          "[models]") {
  manual_seed(1);
  const ResNet net = models::resnet18({.classes = 10, .width = 16});
  const auto variance = [](const Tensor& t) { return mean(square(t)).item(); };
  // 3 x 3 to 128 channels: N(0, 2 / (9 * 128)).
  const double drawn = variance(net.parameter("layer4.0.conv2.weight")), wanted = 2.0 / (9 * 128);
  CHECK(std::abs(drawn / wanted - 1) < 0.02);  // of 147456 numbers: 5 standard deviations
  CHECK(min(net.bn1.weight).item() == 1);
  CHECK(variance(net.bn1.bias) == 0);
  CHECK(min(net.parameter("layer3.1.bn2.weight")).item() == 1);

  const ResNet still = models::resnet50({.classes = 10, .width = 8, .zero_init_residual = true});
  CHECK(variance(still.parameter("layer3.1.bn3.weight")) == 0);
  CHECK(min(still.parameter("layer3.1.bn2.weight")).item() == 1);
}

TEST_CASE("ResNets of impossible sizes are refused", "[models]") {
  CHECK_THROWS_AS(models::resnet18({.classes = 0, .width = 4}), ShapeError);
  CHECK_THROWS_AS(models::resnet18({.width = 0}), ShapeError);
  ResNet net = models::resnet18({.classes = 10, .in_channels = 1, .width = 4});
  CHECK(mentions(message_of([&] { (void)net(zeros({1, 3, 32, 32})); }), "in conv1"));
}
