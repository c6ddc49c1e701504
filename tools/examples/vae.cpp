// A variational autoencoder (Kingma and Welling, 2014, arXiv:1312.6114): a Bernoulli decoder, a
// normal posterior with the reparameterisation trick, trained on images of bars.
//
//   example_vae [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

struct Posterior {
  Tensor logits, mean, log_var;
};

struct Vae : nn::Module<Vae> {
  nn::Linear hidden = add("hidden", nn::Linear{64, 32});
  nn::Linear mean = add("mean", nn::Linear{32, 4});
  nn::Linear log_var = add("log_var", nn::Linear{32, 4});
  nn::Sequential decoder =
      add("decoder", nn::Sequential{nn::Linear{4, 32}, nn::Tanh{}, nn::Linear{32, 64}});

  Posterior forward(Tensor x, const Tensor& noise) {
    const Tensor h = tanh(hidden(x));
    const Tensor m = mean(h), v = log_var(h);
    const Tensor z = m + exp(0.5 * v) * noise;
    return {decoder(z), m, v};
  }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::vae, argc, argv);
  Vae net;
  same_start(net);
  const Tensor x = bars(48, 8, 100).flatten(1);
  optim::Adam opt{net, {.lr = 3e-3}};
  for (int step = 0; step < losses.steps(); ++step) {
    const auto [logits, mean, log_var] = net(x, numbers({48, 4}, 200 + step));
    const Tensor reconstruction = binary_cross_entropy_with_logits(logits, x).sum;
    const Tensor divergence = -0.5 * sum(1 + log_var - square(mean) - exp(log_var));
    const Tensor loss = (reconstruction + divergence) / x.size(0);
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());
  }
  return losses.compare();
}
