// What the articles' models have to do, row by row: layers, latents, a physics-informed network,
// weights from a file.
#include <cmath>
#include <numbers>
#include <set>

#include "warptape/autograd/functional.h"
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profile.h"
#include "warptape/core/random.h"
#include "warptape/data/resident_loader.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/deep_sdf.h"
#include "warptape/nn/functional_call.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/name_lookups.h"
#include "warptape/nn/pinn.h"
#include "warptape/nn/resnet.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/schedule.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr double kPi = std::numbers::pi;

// u'' = -pi^2 sin(pi x), u(-1) = u(1) = 0: the solution is sin(pi x).
Loss poisson_loss(models::Pinn& net, const Tensor& x, bool create_graph) {
  const Tensor u = net(x);
  const Tensor du = grad(sum(u), x, {.create_graph = true});
  const Tensor ddu = grad(sum(du), x, {.create_graph = create_graph});
  const Loss equation = mse_loss(ddu, -kPi * kPi * sin(kPi * x.detach()));
  const Tensor ends = tensor({{-1.0}, {1.0}}, {.dtype = f64});
  const Loss border = mse_loss(net(ends), zeros_like(ends));
  return {equation.sum / equation.weight + 100.0 * border.sum / border.weight, 1};
}

struct Shapes {
  Tensor points, distances;  // [2, n, 3], [2, n, 1]
};
// A sphere of radius 0.5, and a torus of radii 0.5 and 0.2 about the third axis.
Shapes sphere_and_torus(i64 n) {
  const Tensor p = rand({2, n, 3}) * 1.6 - 0.8;
  const SumOptions keep{.keep_dim = true};
  const Tensor flat = norm(p[1].narrow(1, 0, 2), 2, 1, keep) - 0.5;
  return {p, stack({norm(p[0], 2, 1, keep) - 0.5,
                    sqrt(square(flat) + square(p[1].narrow(1, 2, 1))) - 0.2})};
}

models::DeepSdf small_sdf() {
  return models::DeepSdf({.shapes = 2,
                          .latent = 8,
                          .width = 32,
                          .layers = 4,
                          .latent_in = 2,
                          .dropout = 0,
                          .weight_norm = false});
}

Loss sdf_loss(models::DeepSdf& net, const data::Batch& b) {
  const Tensor ids = arange(2).repeat_interleave(b.x.size(1)).to(b.x.device());
  return l1_loss(net(ids, b.x.reshape({-1, 3})), b.y.reshape({-1, 1}));
}

double largest(const Tensor& a, const Tensor& b) {
  return amax(wt::abs(a.to(Device::cpu(), f64) - b.to(Device::cpu(), f64)), Dims::all()).item();
}

}  // namespace

TEST_CASE("row 11: a network learns a Poisson equation from its second derivatives") {
  manual_seed(1);
  models::Pinn net({.features = {1, 16, 16, 1}});
  net.to(f64);
  const auto inputs = [] {
    return linspace(-1, 1, 33, {.dtype = f64}).reshape({-1, 1}).set_requires_grad();
  };
  // A second derivative that keeps no graph would train nothing: it is refused.
  CHECK_THROWS_AS(poisson_loss(net, inputs(), false).backward(), UsageError);
  net.zero_grad();

  optim::Adam opt{net, {.lr = 1e-2}};
  opt.set_schedule(optim::cosine(400, 0.01));
  const auto error = [&] {
    const NoGrad no_grad;
    const Tensor x = inputs().detach(), exact = sin(kPi * x);
    return (norm(net(x) - exact) / norm(exact)).item();
  };
  CHECK(error() > 0.5);
  for (int step = 0; step < 400; ++step) {
    opt.zero_grad();
    poisson_loss(net, inputs(), true).backward();
    opt.step();
  }
  CHECK(error() < 0.03);
}

TEST_CASE("row 11: derivatives of derivatives of every activation that a PINN may have") {
  using models::PinnActivation;
  for (const auto f :
       {PinnActivation::tanh, PinnActivation::sin, PinnActivation::silu, PinnActivation::gelu}) {
    manual_seed(2);
    models::Pinn net({.features = {2, 4, 1}, .activation = f});
    net.to(f64);
    const GradCheck check = grad_grad_check([&](std::span<const Tensor> in) { return net(in[0]); },
                                            {randn({3, 2}, {.dtype = f64, .requires_grad = true})});
    INFO(check.message);
    CHECK(check.ok);
  }
}

TEST_CASE("row 21: latents are trained without a look-up by name in the step") {
  manual_seed(3);
  models::DeepSdf net = small_sdf();
  optim::Adam opt{net, {.lr = 1e-2}};
  const Shapes all = sphere_and_torus(50);
  const Tensor before = net.lat_vecs.weight->detach().clone();
  profiler::Scope watch;  // look-ups are counted while somebody watches
  const i64 count = nn::detail::name_lookups().count;
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    opt.zero_grad();
    const Loss loss = sdf_loss(net, {all.points, all.distances});
    loss.backward();
    opt.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  CHECK(nn::detail::name_lookups().count == count);
  CHECK(net.parameter("lat_vecs.weight")->same_as(net.lat_vecs.weight));
  CHECK(nn::detail::name_lookups().count > count);
  (void)watch.stop();
  CHECK(last < 0.7 * first);
  CHECK(largest(net.lat_vecs.weight, before) > 1e-3);
}

TEST_CASE("row 80: gradients of Linear and of a Sequential of them") {
  manual_seed(4);
  nn::Sequential net{nn::Linear{5, 7}, nn::ReLU{}, nn::Linear{7, 3}};
  net.to(f64);
  std::vector<std::string> names;
  std::vector<Tensor> inputs;
  for (const auto& [name, p] : net.named_parameters()) {
    names.push_back(name);
    inputs.push_back(p.detach().clone().set_requires_grad());
  }
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
  inputs.push_back(randn({4, 5}, {.dtype = f64, .requires_grad = true}));
  const CheckedFunction f = [&](std::span<const Tensor> in) {
    std::vector<nn::NamedTensor> state;
    for (size_t i = 0; i < names.size(); ++i) state.push_back({names[i], in[i]});
    return functional_call(net, state, in.back());
  };
  const GradCheck once = grad_check(f, inputs), twice = grad_grad_check(f, inputs);
  INFO(once.message << twice.message);
  CHECK(once.ok);
  CHECK(twice.ok);
}

TEST_CASE("row 81: Conv2d(3, 32, 3, 1, 1) is the same by every variant of its kernels") {
  manual_seed(5);
  const nn::Conv2d made{3, 32, {.kernel = 3, .stride = 1, .padding = 1}};
  const Tensor x = randn({2, 3, 9, 10}), seed = randn({2, 32, 9, 10});
  const auto run = [&](nn::Conv2d conv, Device d, DType t) {
    const Tensor in = x.to(d, t).detach().set_requires_grad();
    conv.to(d, t);
    const Tensor y = conv(in);
    y.backward(seed.to(d, t));
    return std::vector<Tensor>{y.detach(), in.grad(), conv.weight->grad(), conv.bias->grad()};
  };
  const std::vector<Tensor> exact = run(made.clone(), Device::cpu(), f64);
  std::set<std::string> ran;
  for (const Device d : kernel_devices())
    for (const ContractInfo& c : all_contracts()) {
      const std::string contract = c.name;
      if (contract != "conv_forward" && contract != "conv_backward_input" &&
          contract != "conv_backward_weight")
        continue;
      for (int i = 0; i < c.count(d.kind); ++i) {
        const std::string variant = c.variant(d.kind, i).name;
        INFO(str(d) << " " << contract << ":" << variant);
        std::vector<Tensor> got;
        try {
          const VariantScope scope(contract, variant);
          got = run(made.clone(), d, f32);
        } catch (const Error& e) {  // one that is for other arguments says so
          CHECK(std::string(e.what()).find("does not take these arguments") != std::string::npos);
          continue;
        }
        ran.insert(str(d) + " " + contract + ":" + variant);
        for (size_t k = 0; k < exact.size(); ++k)  // 180 terms of a weight's gradient
          CHECK(largest(got[k], exact[k]) < 1e-4);
      }
    }
  CHECK(ran.size() >= 6);
}

TEST_CASE("row 88: weights of a file, and all that does not fit listed") {
  const TempDir dir;
  manual_seed(6);
  const models::ResNetOptions narrow{.classes = 10, .width = 4, .cifar_stem = true};
  const models::ResNet trained = models::resnet18(narrow);
  nn::save_model(trained, dir / "net.safetensors");
  models::ResNet net = models::resnet18(narrow);
  CHECK(largest(net.fc.weight, trained.fc.weight) > 0);
  CHECK(nn::load_model(net, dir / "net.safetensors").complete());
  CHECK(largest(net.fc.weight, trained.fc.weight) == 0);

  models::ResNet other = models::resnet18({.classes = 7, .width = 4, .cifar_stem = true});
  std::vector<nn::NamedTensor> state;
  for (nn::NamedTensor& t : trained.state_dict())
    if (t.name != "conv1.weight") state.push_back(t);
  state.push_back({"head.scale", ones({1})});
  const Tensor before = other.conv1.weight->detach().clone();
  const std::string all = message_of([&] { other.load_state_dict(state); });
  for (const char* name : {"conv1.weight", "head.scale", "fc.weight", "fc.bias"}) {
    INFO(all);
    CHECK(all.find(name) != std::string::npos);
  }
  const nn::LoadStateResult rest = other.load_state_dict(state, {.strict = false});
  CHECK(rest.missing == std::vector<std::string>{"conv1.weight"});
  CHECK(rest.unexpected == std::vector<std::string>{"head.scale"});
  CHECK(rest.misshapen.size() == 2);
  CHECK(largest(other.conv1.weight, before) == 0);
  CHECK(largest(other.layer1[0].parameter("conv1.weight"),
                net.layer1[0].parameter("conv1.weight")) == 0);
}

TEST_CASE("row 89: an auto-decoder gives a sphere and a torus from their latents") {
  manual_seed(7);
  models::DeepSdf net = small_sdf();
  const Shapes seen = sphere_and_torus(4000), unseen = sphere_and_torus(1000);
  data::ResidentLoader loader{
      data::ResidentPoints{seen.points, seen.distances, Device::cpu(), {.ratio = 0.1}},
      {.batch = 2, .seed = 1}};
  optim::Adam opt{net, {.lr = 5e-3}};
  opt.set_schedule(optim::cosine(250, 0.05));
  for (int step = 0; step < 250; ++step)
    for (const auto& batch : loader) {
      CHECK(batch.x.shape() == Shape{2, 400, 3});
      opt.zero_grad();
      sdf_loss(net, batch).backward();
      opt.step();
    }
  const NoGrad no_grad;
  const data::Batch test{unseen.points, unseen.distances};
  CHECK(sdf_loss(net, test).item() < 0.03);
  for (i64 shape = 0; shape < 2; ++shape) {
    const Tensor ids = full({1000}, shape, {.dtype = DType::i64});
    const Tensor inside = lt(net(ids, test.x[shape]), 0), wanted = lt(test.y[shape], 0);
    const double both = sum((inside & wanted).to(f32)).item(),
                 either = sum((inside | wanted).to(f32)).item();
    CAPTURE(shape, both, either);
    CHECK(both > 0.6 * either);  // the volumes cover each other
  }
}
