// Networks of pictures, points and fields: U-Net, PointNet, DeepSDF, PINN, the CIFAR speed run.
#include "warptape/autograd/compare.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"
#include "warptape/nn/cifar_speedrun.h"
#include "warptape/nn/deep_sdf.h"
#include "warptape/nn/init.h"
#include "warptape/nn/pinn.h"
#include "warptape/nn/pointnet.h"
#include "warptape/nn/unet.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::CifarSpeedrun;
using models::DeepSdf;
using models::Pinn;
using models::PointNet;
using models::Unet;

TEST_CASE("U-Net: names, outputs, gradients and training as PyTorch's", "[models][torch]") {
  check_whole<Unet>(
      "unet", [] { return Unet(); },
      [](Unet& net) {
        return net(hashed({1, 3, 32, 32}).to(f32));
      });
  // 33 x 34 pixels: what comes up is padded on the way.
  for (const bool bilinear : {false, true})
    check_small<Unet>(
        {.reference = bilinear ? "unet_bilinear" : "unet_narrow", .on_simt = !bilinear},
        [&] { return Unet({.width = 2, .bilinear = bilinear}); },
        [](Unet& net) {
          return net(hashed({2, 3, 33, 34}));
        },
        [](Tensor y) {
          return cross_entropy(std::move(y), hashed_ids({2, 33, 34}, "labels", 2));
        });
}

TEST_CASE("PointNet: names, outputs, gradients and training as PyTorch's", "[models][torch]") {
  const auto call = [](PointNet& net) { return net(hashed({5, 3, 20})).output; };
  // On simt a thousand features of each point take too long.
  check_small<PointNet>(
      {.reference = "pointnet", .on_simt = false}, [] { return PointNet({.dropout = 0}); }, call,
      hashed_classes());
  // Norms over five samples behind learned matrices of 64 x 64 make more of a rounding each step.
  check_small<PointNet>(
      {.reference = "pointnet_features", .bound = 1e-7, .on_simt = false},
      [] { return PointNet({.classes = 4, .feature_transform = true, .dropout = 0}); }, call,
      hashed_classes());
}

TEST_CASE("PointNet does not see the order of points, and its penalty is 0 of a rotation",
          "[models]") {
  const LeakGuard guard;
  PointNet net({.classes = 3, .feature_transform = true});
  net.eval();
  const NoGrad no_grad;
  const Tensor x = hashed({2, 3, 9}).to(f32);
  const models::PointNetResult there = net(x), back = net(flip(x, {2}));
  CHECK(allclose(there.output, back.output));
  CHECK(there.feature_transform.shape() == Shape{2, 64, 64});
  const Tensor turn = tensor({{{0.6, -0.8}, {0.8, 0.6}}, {{0.0, 1.0}, {-1.0, 0.0}}});
  CHECK(models::transform_penalty(turn).item() < 1e-6);
  CHECK(std::abs(models::transform_penalty(2 * turn).item() - 3 * std::sqrt(2.0)) < 1e-5);
}

TEST_CASE("DeepSDF: names, outputs, gradients and training as PyTorch's", "[models][torch]") {
  check_whole<DeepSdf>(
      "deepsdf", [] { return DeepSdf({.shapes = 100}); },
      [](DeepSdf& net) {
        return net(hashed_ids({24}, "shapes", 100), hashed({24, 3}).to(f32));
      });
  check_small<DeepSdf>(
      {.reference = "deepsdf_small"},
      [] {
        return DeepSdf(
            {.shapes = 5, .latent = 6, .width = 20, .layers = 4, .latent_in = 2, .dropout = 0});
      },
      [](DeepSdf& net) {
        return net(hashed_ids({24}, "shapes", 5), hashed({24, 3}));
      },
      [](const Tensor& y) {
        return mse_loss(y, hashed({24, 1}, "labels"));
      });
  CHECK(mentions(message_of([] { DeepSdf({.latent = 4}); }), ".shapes must be given"));
  CHECK_THROWS_AS(DeepSdf({.shapes = 2, .latent = 40, .width = 20}), ShapeError);
}

TEST_CASE("a PINN trains on second derivatives of itself as PyTorch's does", "[models][torch]") {
  const auto residual = [](Pinn& u) {  // of Burgers' equation
    Tensor x = hashed({16, 2});
    x.set_requires_grad();
    const EnableGrad on;
    const Tensor y = u(x);
    const Tensor first = grad(sum(y), x, {.create_graph = true});
    const Tensor second = grad(sum(first.select(1, 0)), x, {.create_graph = true});
    return first.select(1, 1) + y.select(1, 0) * first.select(1, 0) -
           0.01 / M_PI * second.select(1, 0);
  };
  check_small<Pinn>(
      {.reference = "pinn"}, [] { return Pinn(); }, residual,
      [](const Tensor& r) { return mse_loss(r, zeros_like(r)); });
  CHECK_THROWS_AS(Pinn({.features = {2}}), ShapeError);
  for (const auto f :
       {models::PinnActivation::sin, models::PinnActivation::silu, models::PinnActivation::gelu}) {
    Pinn u({.features = {2, 8, 3}, .activation = f});
    CHECK(u(zeros({5, 2})).shape() == Shape{5, 3});
  }
}

TEST_CASE("the speed run's network: names, outputs, gradients and training as PyTorch's",
          "[models][torch]") {
  check_whole<CifarSpeedrun>(
      "cifar_speedrun", [] { return CifarSpeedrun(); },
      [](CifarSpeedrun& net) {
        return net(hashed({2, 3, 32, 32}).to(f32));
      });
  check_small<CifarSpeedrun>(
      {.reference = "cifar_speedrun_narrow"},
      [] { return CifarSpeedrun({.width1 = 8, .width2 = 12, .width3 = 16}); },
      [](CifarSpeedrun& net) {
        return net(hashed({4, 3, 32, 32}));
      },
      hashed_classes());
}

TEST_CASE("the speed run's first convolution whitens patches and is frozen", "[models][torch]") {
  const LeakGuard guard;
  CifarSpeedrun net({.width1 = 8, .width2 = 8, .width3 = 8});
  net.to(f64);
  net.whiten_by(hashed({12, 3, 8, 8}));
  CHECK_FALSE(net.whiten.weight->requires_grad());
  CHECK(net.whiten.bias->requires_grad());
  const reference::Arrays want =
      reference::load_reference(reference::reference_path("models/cifar_speedrun_whiten"));
  const Tensor w = net.whiten.weight->reshape({24, 12}), first = w.slice(0, {0, 12});
  CHECK(allclose(first, -w.slice(0, {12, 24})));
  const Tensor gram = tensor(want.at("gram").values).reshape({12, 12});
  CHECK(allclose(matmul(first.transpose(0, 1), first), gram, {.rtol = 1e-9, .atol = 1e-9}));
  const Tensor norms = norm(first, 2, {1});
  CHECK(allclose(norms, tensor(want.at("norms").values), {.rtol = 1e-9, .atol = 1e-9}));
  CHECK_THROWS_AS(net.whiten_by(zeros({2, 1, 8, 8})), ShapeError);
}

TEST_CASE("dirac_ passes channels on as they are", "[init]") {
  nn::Conv2d conv{2, 3, {.kernel = 3, .padding = 1, .bias = false}};
  nn::init::dirac_(conv.weight);
  const NoGrad no_grad;
  const Tensor x = hashed({1, 2, 4, 4}).to(f32), y = conv(x);
  CHECK(equal(y.slice(1, {0, 2}), x));
  CHECK(max(abs(y.select(1, 2))).item() == 0);
  const Tensor grouped = zeros({4, 1, 3});
  nn::init::dirac_(grouped, 2);
  CHECK(values(grouped) == Values{0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  CHECK_THROWS_AS(nn::init::dirac_(zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(nn::init::dirac_(zeros({3, 2, 3}), 2), ShapeError);
}
