// Model-agnostic meta-learning (Finn et al., 2017, arXiv:1703.03400): parameters from which two
// steps of gradient descent fit any sine wave. The outer gradient goes through the inner steps.
//
//   example_maml [--steps N] [--device cpu|simt|cuda]
#include <numbers>

#include "same_start.h"

using namespace wt;

int main(int argc, char** argv) {
  Losses losses(torch_losses::maml, argc, argv);
  nn::Sequential net{nn::Linear{1, 40}, nn::ReLU{}, nn::Linear{40, 40}, nn::ReLU{},
                     nn::Linear{40, 1}};
  same_start(net);
  optim::Adam opt{net, {.lr = 1e-3}};
  const int tasks = 4;

  for (int step = 0; step < losses.steps(); ++step) {
    const Tensor amplitude = 3 + 2 * numbers({tasks}, 100 + step);
    const Tensor phase = std::numbers::pi / 2 * (1 + numbers({tasks}, 200 + step));
    Tensor outer = zeros({}, {.dtype = f64});
    for (int t = 0; t < tasks; ++t) {
      const Tensor x = 5 * numbers({2, 10, 1}, 300 + tasks * step + t);  // [0]: to adapt to
      const Tensor y = amplitude[t] * sin(x + phase[t]);                 // [1]: to be judged by
      std::vector<Tensor> fast = net.parameters();
      for (int i = 0; i < 2; ++i) {
        const auto inner = mse_loss(functional_call(net, fast, x[0]), y[0]);
        const std::vector<Tensor> g = grads(inner, fast, {.create_graph = true});
        for (size_t k = 0; k < fast.size(); ++k) fast[k] = fast[k] - 0.01 * g[k];
      }
      outer += mse_loss(functional_call(net, fast, x[1]), y[1]);
    }
    const Tensor loss = outer / tasks;
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());
  }
  return losses.compare();
}
