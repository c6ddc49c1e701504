// A U-Net (Ronneberger et al., 2015, arXiv:1505.04597) that finds discs in noise: what the way down
// saw is put beside what comes up again.
//
//   example_unet [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

static nn::Sequential double_conv(i64 in, i64 out) {
  return nn::Sequential{nn::Conv2d{in, out, {.kernel = 3, .padding = 1, .bias = false}},
                        nn::BatchNorm2d{out},
                        nn::ReLU{},
                        nn::Conv2d{out, out, {.kernel = 3, .padding = 1, .bias = false}},
                        nn::BatchNorm2d{out},
                        nn::ReLU{}};
}

static Tensor up(Tensor x) {
  return upsample(std::move(x), {.scale = {2}, .mode = UpsampleMode::bilinear});
}

struct Unet : nn::Module<Unet> {
  nn::Sequential down1 = add("down1", double_conv(1, 8));
  nn::Sequential down2 = add("down2", double_conv(8, 16));
  nn::Sequential bottom = add("bottom", double_conv(16, 32));
  nn::Sequential up2 = add("up2", double_conv(32 + 16, 16));
  nn::Sequential up1 = add("up1", double_conv(16 + 8, 8));
  nn::Conv2d head = add("head", nn::Conv2d{8, 1, {.kernel = 1}});

  Tensor forward(Tensor x) {
    const Tensor skip1 = down1(std::move(x));
    const Tensor skip2 = down2(max_pool2d(skip1, 2));
    x = bottom(max_pool2d(skip2, 2));
    x = up2(cat({skip2, up(std::move(x))}, 1));
    x = up1(cat({skip1, up(std::move(x))}, 1));
    return head(std::move(x));
  }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::unet, argc, argv);
  Unet net;
  same_start(net);

  const i64 n = 8, size = 24;
  const Tensor place = arange(size, {.dtype = f64});
  const Tensor middle = size / 2 + size / 4 * numbers({2, n, 1, 1}, 100);
  const Tensor radius = size / 4 + size / 8 * numbers({n, 1, 1}, 101);
  const Tensor squares = square(place.unsqueeze(1) - middle[0]) + square(place - middle[1]);
  const Tensor mask = lt(squares, square(radius)).to(f64).unsqueeze(1);
  const Tensor x = mask + numbers({n, 1, size, size}, 102);

  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  for (int step = 0; step < losses.steps(); ++step) {
    const auto loss = binary_cross_entropy_with_logits(net(x), mask);
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());
  }
  return losses.compare();
}
