// Two networks whose inputs are points: shapes that a decoder learns with a vector of their own for
// each (an auto-decoder), from points that lie on the device and of which a step takes a tenth; and
// a function that is learned from its differential equation alone (a physics-informed network).
//
//   example_pinn_and_latents [--steps N] [--device simt]
//
// docs/articles.md has its lines beside PyTorch's; its profiler tables are in profiling.cpp.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numbers>
#include <string>

#include "warptape/data/plan.h"
#include "warptape/data/resident_loader.h"
#include "warptape/nn/deep_sdf.h"
#include "warptape/nn/meters.h"
#include "warptape/nn/pinn.h"
#include "warptape/warptape.h"

using namespace wt;

constexpr i64 kShapes = 3, kPoints = 10000;

// Points [S, N, 3] and their distances [S, N, 1] to spheres and rings of several sizes.
static data::Batch shapes() {
  const Tensor points = rand({kShapes, kPoints, 3}) * 1.6 - 0.8;
  std::vector<Tensor> distances;
  for (i64 i = 0; i < kShapes; ++i) {
    const Tensor p = points[i];
    const double size = 0.3 + 0.1 * double(i);
    const Tensor flat = norm(p[{Slice{}, Slice{0, 2}}], 2, 1, {.keep_dim = true});
    const Tensor up = p[{Slice{}, Slice{2, 3}}];
    if (i % 2 == 0)
      distances.push_back(norm(p, 2, 1, {.keep_dim = true}) - size);
    else
      distances.push_back(sqrt(square(flat - size) + square(up)) - 0.15);
  }
  return {points, stack(distances)};
}

// The latents are a table of the module: no name is looked up in the loss.
static Loss sdf_loss(models::DeepSdf& net, const Tensor& ids, const data::Batch& batch) {
  const Loss fit = l1_loss(net(ids, batch.x.reshape({-1, 3})), batch.y.reshape({-1, 1}));
  return {fit.sum + 1e-4 * sum(square(net.lat_vecs.weight)) * fit.weight, fit.weight};
}

static void train_latents(Device device, int steps) {
  const data::Batch all = shapes();
  const i64 bytes = 4 * (all.x.numel() + all.y.numel());
  std::printf("data: %.2f MB, %s\n", double(bytes) / 1e6, data::plan(bytes, device).why.c_str());
  // Sent once; every epoch has another tenth of each shape's points.
  data::ResidentLoader loader{data::ResidentPoints{all.x, all.y, device, {.ratio = 0.1}},
                              {.batch = kShapes, .seed = 1}};

  models::DeepSdf net({.shapes = kShapes,
                       .latent = 8,
                       .width = 32,
                       .layers = 4,
                       .latent_in = 2,
                       .dropout = 0,
                       .weight_norm = false});
  net.to(device);
  optim::Adam opt{net, {.lr = 3e-3}};
  optim::GradScaler scaler;
  const Tensor ids = arange(kShapes).repeat_interleave(loader.dataset().points()).to(device);
  metrics::MeanMeter mean_loss;  // adds up on the device: no item() in the loop
  for (int step = 1; step <= steps;) {
    for (auto& batch : loader) {
      opt.zero_grad();
      const Loss loss = [&] {
        const AutocastScope autocast(DType::f16);
        return sdf_loss(net, ids, batch);
      }();
      scaler.scale(loss).backward();
      scaler.step(opt);
      scaler.update();
      mean_loss.add(loss);
      if (step % 50 == 0 || step == steps) {
        std::printf("latents  step %4d  loss %.4f\n", step, mean_loss.value());
        mean_loss.reset();
      }
      ++step;
    }
  }
  const NoGrad no_grad;  // a test keeps nothing for a backward, so all points fit at once
  const Tensor every = arange(kShapes).repeat_interleave(kPoints).to(device);
  const Tensor distance = net(every, all.x.reshape({-1, 3}).to(device));
  const Tensor off = wt::abs(distance - all.y.reshape({-1, 1}).to(device)).reshape({kShapes, -1});
  const std::vector<float> error = mean(off, 1).to_vector<float>();
  for (i64 i = 0; i < kShapes; ++i)
    std::printf("  shape %d (%s): mean error of the distance %.3f\n", int(i),
                i % 2 == 0 ? "sphere" : "ring", double(error[size_t(i)]));
}

// u'' = -pi^2 sin(pi x) with u(-1) = u(1) = 0, whose solution is sin(pi x).
static Loss poisson_loss(models::Pinn& net, const Tensor& x, const Tensor& ends) {
  constexpr double pi = std::numbers::pi;
  const Tensor u = net(x);
  const Tensor du = grad(u, x, {.grad_outputs = {ones_like(u)}, .create_graph = true});
  const Tensor ddu = grad(du, x, {.grad_outputs = {ones_like(du)}, .create_graph = true});
  const Loss equation = mse_loss(ddu, -pi * pi * sin(pi * x.detach()));
  const Loss border = mse_loss(net(ends), zeros_like(ends));
  return {equation.sum / equation.weight + 100.0 * border.sum / border.weight, 1};
}

static double train_pinn(Device device, int steps) {
  constexpr double pi = std::numbers::pi;
  models::Pinn net({.features = {1, 32, 32, 1}});
  net.to(device);
  optim::Adam opt{net, {.lr = 5e-3}};
  opt.set_schedule(optim::cosine(steps, 0.01));
  const Tensor ends = tensor({{-1.0}, {1.0}}, {.device = device});
  for (int step = 1; step <= steps; ++step) {
    const Tensor x = (rand({128, 1}, {.device = device}) * 2.0 - 1.0).set_requires_grad();
    opt.zero_grad();
    const Loss loss = poisson_loss(net, x, ends);
    loss.backward();
    opt.step();
    if (step % 200 == 0 || step == steps)
      std::printf("physics  step %4d  loss %.5f\n", step, loss.item());
  }
  // A derivative that only is looked at keeps no graph: create_graph is false.
  Tensor x = linspace(-1, 1, 201, {.device = device}).reshape({-1, 1}).set_requires_grad();
  const Tensor u = net(x);
  const Tensor du = grad(u, x, {.grad_outputs = {ones_like(u)}});
  const Tensor exact = sin(pi * x.detach()), slope = pi * cos(pi * x.detach());
  std::printf("relative error of the derivative: %.4f\n", (norm(du - slope) / norm(slope)).item());
  return (norm(u.detach() - exact) / norm(exact)).item();
}

int main(int argc, char** argv) {
  int steps = 800;
  Device device = cuda::is_available() ? Device::cuda() : Device::cpu();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--steps")) steps = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--device")) device = Device::parse(argv[i + 1]);
  }
  manual_seed(1);
  std::printf("device: %s\n", str(device).c_str());
  train_latents(device, std::min(steps, 200));
  std::printf("relative error of the solution: %.4f\n", train_pinn(device, steps));
  return 0;
}
