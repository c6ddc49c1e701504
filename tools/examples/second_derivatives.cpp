// A physics-informed network (Raissi et al., 2019): it learns the solution of u'' = -u, u(0) = 0,
// u'(0) = 1 from the equation alone. The loss has second derivatives of the network, its gradient
// third ones.
//
//   example_second_derivatives [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

struct Solution : nn::Module<Solution> {
  nn::Linear in = add("in", nn::Linear{1, 24});
  nn::Linear mid = add("mid", nn::Linear{24, 24});
  nn::Linear out = add("out", nn::Linear{24, 1});
  // x + x^2 net(x): both conditions at 0 hold whatever the network is.
  Tensor forward(Tensor x) { return x + square(x) * out(tanh(mid(tanh(in(x))))); }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::second_derivatives, argc, argv);
  Solution u;
  same_start(u);
  const Tensor x = linspace(0, 4, 40, {.dtype = f64}).unsqueeze(1).set_requires_grad();

  const auto residual = [&] {
    const Tensor y = u(x);
    const Tensor dy = grad(sum(y), x, {.create_graph = true});
    const Tensor ddy = grad(sum(dy), x, {.create_graph = true});
    return mean(square(ddy + y));
  };
  const auto closure = [&] {
    u.zero_grad();
    const Tensor r = residual();
    r.backward();
    return r;
  };
  {
    // Two iterations a step: a rounding error grows by about a third with each, in PyTorch too.
    optim::Lbfgs opt{u, {.max_iter = 2, .line_search = optim::LineSearch::strong_wolfe}};
    for (int step = 0; step < losses.steps(); ++step) losses.add(opt.step(closure));
  }
  optim::Lbfgs opt{u, {.line_search = optim::LineSearch::strong_wolfe}};
  for (int step = 0; step < 5; ++step) std::printf("residual %.2e\n", opt.step(closure));

  // The Hessian of the loss times a vector, without the Hessian: the gradient of (gradient . v).
  const Tensor w = u.mid.weight, v = numbers(w.shape(), 100);
  const Tensor g = grad(residual(), w, {.create_graph = true});
  const Tensor hv = grad(sum(g * v), w);
  std::printf("curvature along a direction: %.3e\n", (sum(hv * v) / sum(v * v)).item());

  const NoGrad no_grad;
  const double error = max(abs(u(x) - sin(x))).item();
  std::printf("largest difference to sin(x) on [0, 4]: %.2e\n", error);
  return losses.compare() != 0 || !(error < 5e-3);
}
