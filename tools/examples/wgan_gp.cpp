// A Wasserstein GAN with a penalty on the critic's gradient (Gulrajani et al., 2017,
// arXiv:1704.00028): points on a circle. The penalty is a function of a derivative, which is
// trained through.
//
//   example_wgan_gp [--steps N] [--device cpu|simt|cuda]
#include <numbers>

#include "same_start.h"

using namespace wt;

static nn::Sequential perceptron(i64 outputs) {
  return nn::Sequential{nn::Linear{2, 32}, nn::LeakyReLU{0.2}, nn::Linear{32, 32},
                        nn::LeakyReLU{0.2}, nn::Linear{32, outputs}};
}

// How far the gradient's norm is from 1, between real and made points.
static Tensor gradient_penalty(nn::Sequential& critic, const Tensor& real, const Tensor& fake,
                               const Tensor& share) {
  const Tensor x = (share * real + (1 - share) * fake).set_requires_grad();
  const Tensor g = grad(sum(critic(x)), x, {.create_graph = true});
  return mean(square(norm(g, 2, 1) - 1));
}

int main(int argc, char** argv) {
  Losses losses(torch_losses::wgan_gp, argc, argv);
  nn::Sequential generator = perceptron(2), critic = perceptron(1);
  same_start(generator);
  same_start(critic);
  optim::Adam g_opt{generator, {.lr = 1e-3, .betas = {0, 0.9}}};
  optim::Adam c_opt{critic, {.lr = 1e-3, .betas = {0, 0.9}}};
  const i64 n = 32;

  int seed = 100;
  for (int step = 0; step < losses.steps(); ++step) {
    Tensor c_loss;
    for (int i = 0; i < 3; ++i) {  // the critic is ahead
      ++seed;
      const Tensor angle = std::numbers::pi * numbers({n}, seed);
      const Tensor real = stack({cos(angle), sin(angle)}, 1);
      const Tensor fake = generator(numbers({n, 2}, 100 + seed)).detach();
      const Tensor share = 0.5 + 0.5 * numbers({n, 1}, 200 + seed);
      c_loss = mean(critic(fake)) - mean(critic(real)) +
               10 * gradient_penalty(critic, real, fake, share);
      c_opt.zero_grad();
      c_loss.backward();
      c_opt.step();
    }
    const Tensor g_loss = -mean(critic(generator(numbers({n, 2}, 300 + seed))));
    g_opt.zero_grad();
    g_loss.backward();
    g_opt.step();
    losses.add(c_loss.item());
  }
  return losses.compare();
}
