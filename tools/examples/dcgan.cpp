// A generative adversarial network of convolutions (Radford et al., 2015, arXiv:1511.06434) on
// images of bars: two networks, two optimizers, transposed convolutions and batch norms.
//
//   example_dcgan [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

static nn::ConvTranspose2d up(i64 in, i64 out, i64 stride, i64 padding) {
  return {in, out, {.kernel = 4, .stride = stride, .padding = padding, .bias = false}};
}
static nn::Conv2d down(i64 in, i64 out, i64 stride, i64 padding) {
  return {in, out, {.kernel = 4, .stride = stride, .padding = padding, .bias = false}};
}

int main(int argc, char** argv) {
  Losses losses(torch_losses::dcgan, argc, argv);
  nn::Sequential generator{up(8, 16, 1, 0),    nn::BatchNorm2d{16}, nn::ReLU{},     up(16, 8, 2, 1),
                           nn::BatchNorm2d{8}, nn::ReLU{},          up(8, 1, 2, 1), nn::Tanh{}};
  nn::Sequential discriminator{down(1, 8, 2, 1),    nn::LeakyReLU{0.2}, down(8, 16, 2, 1),
                               nn::BatchNorm2d{16}, nn::LeakyReLU{0.2}, down(16, 1, 1, 0),
                               nn::Flatten{0}};
  same_start(generator);
  same_start(discriminator);
  optim::Adam g_opt{generator, {.lr = 2e-3, .betas = {0.5, 0.999}}};
  optim::Adam d_opt{discriminator, {.lr = 2e-3, .betas = {0.5, 0.999}}};
  const i64 n = 16;
  const Tensor real = ones({n}, {.dtype = f64}), fake = zeros({n}, {.dtype = f64});

  for (int step = 0; step < losses.steps(); ++step) {
    const Tensor images = 2 * bars(n, 16, 100 + step).unsqueeze(1) - 1;
    d_opt.zero_grad();
    const auto real_loss = binary_cross_entropy_with_logits(discriminator(images), real);
    real_loss.backward();
    const Tensor made = generator(numbers({n, 8, 1, 1}, 200 + step));
    const auto fake_loss = binary_cross_entropy_with_logits(discriminator(made.detach()), fake);
    fake_loss.backward();
    d_opt.step();

    g_opt.zero_grad();
    const auto g_loss = binary_cross_entropy_with_logits(discriminator(made), real);
    g_loss.backward();
    g_opt.step();
    losses.add((real_loss + fake_loss + g_loss).item());
  }
  return losses.compare();
}
