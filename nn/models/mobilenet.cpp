#include "warptape/nn/mobilenet.h"

#include <algorithm>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/activations.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/init.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/models/conv_norm.h"
#include "warptape/nn/squeeze_excitation.h"

namespace wt::models {
namespace {

void begin_mobilenet(const nn::ModuleBase& net) {
  begin_convolutions(net);
  net.apply([](const nn::ModuleBase& m) {
    if (m.type() != "Linear") return;
    nn::init::normal_(m.parameter("weight"), 0, 0.01);
    nn::init::zeros_(m.parameter("bias"));
  });
}

Tensor over_the_picture(Tensor x) { return adaptive_avg_pool2d(std::move(x), 1).flatten(1); }

}  // namespace

// --- V2 ---

InvertedResidual::InvertedResidual(i64 in, i64 out, i64 stride, i64 expand)
    : adds_(stride == 1 && in == out) {
  const i64 inner = in * expand;
  if (expand != 1) conv.push_back(conv_norm(in, inner, {.behind = Activation::relu6}));
  conv.push_back(conv_norm(
      inner, inner, {.kernel = 3, .stride = stride, .groups = inner, .behind = Activation::relu6}));
  conv.push_back(nn::Conv2d{inner, out, {.kernel = 1, .bias = false}});
  conv.push_back(nn::BatchNorm2d{out});
  add("conv", conv);
}

Tensor InvertedResidual::forward(Tensor x) { return adds_ ? x + conv(x) : conv(std::move(x)); }

MobileNetV2::MobileNetV2(const MobileNetOptions& o)
    : MobileNetV2({{1, 16, 1, 1},
                   {6, 24, 2, 2},
                   {6, 32, 3, 2},
                   {6, 64, 4, 2},
                   {6, 96, 3, 1},
                   {6, 160, 3, 2},
                   {6, 320, 1, 1}},
                  o) {}

MobileNetV2::MobileNetV2(const std::vector<InvertedStage>& stages, const MobileNetOptions& o) {
  i64 in = multiple_of_8(32 * o.width);
  features.push_back(
      conv_norm(o.in_channels, in, {.kernel = 3, .stride = 2, .behind = Activation::relu6}));
  for (const InvertedStage& s : stages) {
    const i64 out = multiple_of_8(double(s.channels) * o.width);
    for (i64 i = 0; i < s.count; ++i) {
      features.push_back(InvertedResidual{in, out, i == 0 ? s.stride : 1, s.expand});
      in = out;
    }
  }
  const i64 last = multiple_of_8(1280 * std::max(1.0, o.width));
  features.push_back(conv_norm(in, last, {.behind = Activation::relu6}));
  add("features", features);
  classifier.push_back(nn::Dropout{o.dropout});
  classifier.push_back(nn::Linear{last, o.classes});
  add("classifier", classifier);
  begin_mobilenet(*this);
}

Tensor MobileNetV2::forward(Tensor x) {
  return classifier(over_the_picture(features(std::move(x))));
}

MobileNetV2 mobilenet_v2(const MobileNetOptions& o) { return MobileNetV2(o); }

// --- V3 ---

namespace {

// V3's norms are slower and steadier than the layer's own.
nn::Sequential conv_norm_v3(i64 in, i64 out, ConvNormOptions o) {
  o.eps = 1e-3, o.momentum = 0.01;
  return conv_norm(in, out, o);
}

}  // namespace

InvertedResidualV3::InvertedResidualV3(const MobileNetV3Block& b)
    : adds_(b.stride == 1 && b.in == b.out) {
  const Activation behind = b.hardswish ? Activation::hardswish : Activation::relu;
  if (b.inner != b.in) block.push_back(conv_norm_v3(b.in, b.inner, {.behind = behind}));
  block.push_back(
      conv_norm_v3(b.inner, b.inner,
                   {.kernel = b.kernel, .stride = b.stride, .groups = b.inner, .behind = behind}));
  if (b.squeezes)
    block.push_back(nn::SqueezeExcitation{
        b.inner, multiple_of_8(double(b.inner / 4)), {.gate = nn::SqueezeGate::hardsigmoid}});
  block.push_back(conv_norm_v3(b.inner, b.out, {}));
  add("block", block);
}

Tensor InvertedResidualV3::forward(Tensor x) { return adds_ ? x + block(x) : block(std::move(x)); }

MobileNetV3::MobileNetV3(const std::vector<MobileNetV3Block>& blocks, i64 last,
                         const MobileNetOptions& o) {
  nn::detail::at_least_1("MobileNetV3", "blocks", i64(blocks.size()));
  features.push_back(conv_norm_v3(o.in_channels, blocks.front().in,
                                  {.kernel = 3, .stride = 2, .behind = Activation::hardswish}));
  for (const MobileNetV3Block& b : blocks) features.push_back(InvertedResidualV3{b});
  const i64 wide = 6 * blocks.back().out;
  features.push_back(conv_norm_v3(blocks.back().out, wide, {.behind = Activation::hardswish}));
  add("features", features);
  classifier.push_back(nn::Linear{wide, last});
  classifier.push_back(nn::Hardswish{});
  classifier.push_back(nn::Dropout{o.dropout});
  classifier.push_back(nn::Linear{last, o.classes});
  add("classifier", classifier);
  begin_mobilenet(*this);
}

Tensor MobileNetV3::forward(Tensor x) {
  return classifier(over_the_picture(features(std::move(x))));
}

MobileNetV3 mobilenet_v3_small(const MobileNetOptions& o) {
  std::vector<MobileNetV3Block> blocks{
      {16, 3, 16, 16, true, false, 2},  {16, 3, 72, 24, false, false, 2},
      {24, 3, 88, 24, false, false, 1}, {24, 5, 96, 40, true, true, 2},
      {40, 5, 240, 40, true, true, 1},  {40, 5, 240, 40, true, true, 1},
      {40, 5, 120, 48, true, true, 1},  {48, 5, 144, 48, true, true, 1},
      {48, 5, 288, 96, true, true, 2},  {96, 5, 576, 96, true, true, 1},
      {96, 5, 576, 96, true, true, 1},
  };
  for (MobileNetV3Block& b : blocks)
    for (i64* channels : {&b.in, &b.inner, &b.out})
      *channels = multiple_of_8(double(*channels) * o.width);
  return {blocks, multiple_of_8(1024 * o.width), o};
}

}  // namespace wt::models
