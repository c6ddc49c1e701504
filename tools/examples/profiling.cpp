// Where the time goes, in two programs: a network that is differentiated by its input (device times
// and memory), and an image classifier (a range of the user's own, input shapes, nested).
//
//   example_profiling [--steps N] [--device simt]
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/core/profile.h"
#include "warptape/warptape.h"

using namespace wt;

struct Field : nn::Module<Field> {
  nn::Linear in = add("in", nn::Linear{2, 32}), mid = add("mid", nn::Linear{32, 32});
  nn::Linear out = add("out", nn::Linear{32, 1});
  Tensor forward(const Tensor& x) { return out(tanh(mid(tanh(in(x))))); }
};

// The residual of u_x + u_y = 0 at random points.
static void physics_step(Field& net, optim::Optimizer& opt, Device d) {
  const Tensor x = rand({256, 2}, {.device = d, .requires_grad = true});
  const Tensor du = grad(net(x).sum(), x, {.create_graph = true});
  Tensor loss = mean(square(du.sum(1)));
  opt.zero_grad();
  loss.backward();
  opt.step();
}

struct Classifier : nn::Module<Classifier> {
  nn::Conv2d conv = add("conv", nn::Conv2d{3, 8, {.kernel = 3, .padding = 1}});
  nn::BatchNorm2d bn = add("bn", nn::BatchNorm2d{8});
  nn::Linear head = add("head", nn::Linear{8 * 8 * 8, 10});
  Tensor forward(const Tensor& x) {
    return head(max_pool2d(relu(bn(conv(x))), {.kernel = 2}).flatten(1));
  }
};

// Whether self times are the measured time, to 2 %.
static bool adds_up(const profiler::Profile& p, const profiler::TableOptions& o) {
  double self = 0;
  for (const profiler::Row& r : p.rows(o))
    if (!r.other_thread) self += 1e-9 * double(r.self_ns);
  return std::abs(self - p.seconds()) <= 0.02 * p.seconds();
}

int main(int argc, char** argv) {
  int steps = 5;
  Device d = Device::best();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--steps")) steps = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--device")) d = Device::parse(argv[i + 1]);
  }
  manual_seed(1);
  Field field;
  field.to(d);
  optim::Adam opt{field};
  physics_step(field, opt, d);  // the first one chooses kernels and takes memory
  const profiler::Profile physics = profiler::profile([&] {
    for (int i = 0; i < steps; ++i) physics_step(field, opt, d);
  });
  const char* key = d.kind == DeviceKind::cpu ? "self_cpu_time_total" : "cuda_time_total";
  std::printf("%s\n", physics.table({.sort_by = key, .rows = 10}).c_str());

  Classifier net;
  net.to(d);
  net.eval();
  const NoGrad no_grad;
  const Tensor images = randn({16, 3, 16, 16}, {.device = d});
  const profiler::Profile inference = profiler::profile(
      [&] {
        for (int i = 0; i < steps; ++i) {
          const auto range = profiler::range("model_inference");
          (void)net(images);
        }
      },
      {.shapes = true});
  std::printf("%s\n%s", inference.table({.sort_by = "cpu_time_total", .nested = true}).c_str(),
              inference.table({.group_by = "module"}).c_str());
  const bool right = adds_up(physics, {}) && adds_up(inference, {.nested = true}) &&
                     adds_up(inference, {.group_by = "module"});
  if (!right) std::printf("self times are not the measured time\n");
  return right ? 0 : 1;
}
