#include "warptape/nn/efficientnet.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/init.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/models/conv_norm.h"
#include "warptape/nn/squeeze_excitation.h"

namespace wt::models {

MBConv::MBConv(i64 in, i64 out, const MbConvStage& stage, i64 stride, double depth_p)
    : stochastic_depth(depth_p), adds_(stride == 1 && in == out) {
  const i64 inner = in * stage.expand;
  if (inner != in) block.push_back(conv_norm(in, inner, {.behind = Activation::silu}));
  block.push_back(conv_norm(
      inner, inner,
      {.kernel = stage.kernel, .stride = stride, .groups = inner, .behind = Activation::silu}));
  block.push_back(nn::SqueezeExcitation{
      inner, std::max<i64>(1, in / 4), {.activation = nn::SqueezeActivation::silu}});
  block.push_back(conv_norm(inner, out, {}));
  add("block", block);
  add("stochastic_depth", stochastic_depth);
}

Tensor MBConv::forward(Tensor x) {
  return adds_ ? stochastic_depth(block(x)) + x : block(std::move(x));
}

EfficientNet::EfficientNet(const std::vector<MbConvStage>& stages, i64 last,
                           const EfficientNetOptions& o) {
  nn::detail::at_least_1("EfficientNet", "stages", i64(stages.size()));
  i64 blocks = 0, done = 0;
  for (const MbConvStage& s : stages) blocks += s.count;
  features.push_back(conv_norm(o.in_channels, stages.front().in,
                               {.kernel = 3, .stride = 2, .behind = Activation::silu}));
  for (const MbConvStage& s : stages) {
    nn::Sequential stage;
    for (i64 i = 0; i < s.count; ++i, ++done)
      stage.push_back(MBConv{i == 0 ? s.in : s.out, s.out, s, i == 0 ? s.stride : 1,
                             o.stochastic_depth * double(done) / double(blocks)});
    features.push_back(stage);
  }
  features.push_back(conv_norm(stages.back().out, last, {.behind = Activation::silu}));
  add("features", features);
  const nn::Linear logits{last, o.classes};
  classifier.push_back(nn::Dropout{o.dropout});
  classifier.push_back(logits);
  add("classifier", classifier);
  begin_convolutions(*this);
  const double bound = 1 / std::sqrt(double(o.classes));
  nn::init::uniform_(logits.weight, -bound, bound);
  nn::init::zeros_(logits.bias);
}

Tensor EfficientNet::forward(Tensor x) {
  return classifier(adaptive_avg_pool2d(features(std::move(x)), 1).flatten(1));
}

EfficientNet efficientnet_b0(const EfficientNetOptions& o) {
  return {{{1, 3, 1, 32, 16, 1},
           {6, 3, 2, 16, 24, 2},
           {6, 5, 2, 24, 40, 2},
           {6, 3, 2, 40, 80, 3},
           {6, 5, 1, 80, 112, 3},
           {6, 5, 2, 112, 192, 4},
           {6, 3, 1, 192, 320, 1}},
          1280,
          o};
}

}  // namespace wt::models
