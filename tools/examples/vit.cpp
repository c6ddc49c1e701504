// A vision transformer (Dosovitskiy et al., 2021, arXiv:2010.11929): patches by a convolution, a
// class token, learned places and pre-norm encoder layers, on four noisy patterns.
//
//   example_vit [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

struct VisionTransformerOptions {
  i64 classes, size, patch, channels;
  i64 count() const { return size / patch * (size / patch); }
  nn::TransformerLayerOptions layer() const {
    return {.dim_feedforward = 2 * channels,
            .dropout = 0,
            .activation = nn::TransformerActivation::gelu,
            .batch_first = true,
            .norm_first = true};
  }
};

struct VisionTransformer : nn::Module<VisionTransformer> {
  VisionTransformerOptions o;
  nn::Conv2d patches =
      add("patches", nn::Conv2d{1, o.channels, {.kernel = o.patch, .stride = o.patch}});
  nn::Param class_token = add("class_token", zeros({1, 1, o.channels}));
  nn::Param places = add("places", zeros({1, 1 + o.count(), o.channels}));
  nn::TransformerEncoder encoder =
      add("encoder", nn::TransformerEncoder{o.channels, 4, 2, o.layer()});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{o.channels});
  nn::Linear head = add("head", nn::Linear{o.channels, o.classes});
  explicit VisionTransformer(const VisionTransformerOptions& options) : o(options) {}

  Tensor forward(Tensor x) {
    x = patches(std::move(x)).flatten(2).transpose(1, 2);
    x = cat({class_token->expand({x.size(0), -1, -1}), x}, 1) + places;
    return head(norm(encoder(std::move(x))[{Slice{}, 0}]));
  }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::vit, argc, argv);
  const i64 classes = 4, n = 32, size = 16;
  VisionTransformer net({.classes = classes, .size = size, .patch = 4, .channels = 32});
  same_start(net);
  const Tensor y = repeat(arange(classes), {n / classes});
  const Tensor patterns = numbers({classes, 1, size, size}, 100);
  const Tensor x = patterns[{y}] + numbers({n, 1, size, size}, 101);

  optim::AdamW opt{net, {.lr = 1e-3, .weight_decay = 0.05}};
  opt.set_schedule(optim::cosine(20));
  for (int step = 0; step < losses.steps(); ++step) {
    const auto loss = cross_entropy(net(x), y, {.label_smoothing = 0.1});
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());
  }
  return losses.compare();
}
