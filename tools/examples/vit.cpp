// A vision transformer (Dosovitskiy et al., 2021, arXiv:2010.11929): patches by a convolution, a
// class token, learned places and pre-norm encoder layers, on four noisy patterns.
//
//   example_vit [--steps N]
#include "same_start.h"

using namespace wt;

struct VisionTransformer : nn::Module<VisionTransformer> {
  i64 classes, channels, patch, count;
  nn::Conv2d patches = add("patches", nn::Conv2d{1, channels, {.kernel = patch, .stride = patch}});
  nn::Param class_token = add("class_token", zeros({1, 1, channels}));
  nn::Param places = add("places", zeros({1, 1 + count, channels}));
  nn::TransformerEncoder encoder =
      add("encoder", nn::TransformerEncoder{channels,
                                            4,
                                            2,
                                            {.dim_feedforward = 2 * channels,
                                             .dropout = 0,
                                             .activation = nn::TransformerActivation::gelu,
                                             .batch_first = true,
                                             .norm_first = true}});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{channels});
  nn::Linear head = add("head", nn::Linear{channels, classes});
  VisionTransformer(i64 of_classes, i64 of_channels, i64 size, i64 of_patch)
      : classes(of_classes),
        channels(of_channels),
        patch(of_patch),
        count(size / of_patch * (size / of_patch)) {}

  Tensor forward(Tensor x) {
    x = patches(std::move(x)).flatten(2).transpose(1, 2);
    x = cat({class_token->expand({x.size(0), -1, -1}), x}, 1) + places;
    return head(norm(encoder(std::move(x))[{Slice{}, 0}]));
  }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::vit, argc, argv);
  const i64 classes = 4, n = 32, size = 16;
  VisionTransformer net(classes, 32, size, 4);
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
