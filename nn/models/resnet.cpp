#include "warptape/nn/resnet.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/init.h"

namespace wt::models {
namespace {

nn::Conv2d resnet_conv(i64 in, i64 out, i64 kernel, i64 stride = 1) {
  return {in, out, {.kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false}};
}
nn::BatchNorm2d resnet_norm(i64 channels, Activation activation = Activation::none) {
  return nn::BatchNorm2d{channels, {.activation = activation}};
}

std::optional<nn::Sequential> shortcut(i64 in, i64 out, i64 stride) {
  if (stride == 1 && in == out) return {};
  return nn::Sequential{resnet_conv(in, out, 1, stride), resnet_norm(out)};
}

i64 channels_behind(ResNetBlock block, i64 width) {
  return width * (block == ResNetBlock::basic ? BasicBlock::kExpansion : Bottleneck::kExpansion);
}

template <class Block>
nn::Sequential blocks_of(i64 in, i64 width, i64 count, i64 stride) {
  nn::Sequential all;
  for (i64 i = 0; i < count; ++i)
    all.push_back(i == 0 ? Block{in, width, stride} : Block{width * Block::kExpansion, width, 1});
  return all;
}
// Stage k of 1 to 4, of which all but the first halve the picture.
nn::Sequential resnet_stage(int k, ResNetBlock block, i64 first_width, i64 count) {
  const i64 width = first_width << (k - 1), stride = k == 1 ? 1 : 2;
  const i64 in = k == 1 ? first_width : channels_behind(block, width / 2);
  return block == ResNetBlock::basic ? blocks_of<BasicBlock>(in, width, count, stride)
                                     : blocks_of<Bottleneck>(in, width, count, stride);
}

void begin_resnet(const nn::ModuleBase& net, bool zero_init_residual) {
  net.apply([&](const nn::ModuleBase& m) {
    if (m.type() == "Conv2d")
      nn::init::kaiming_normal_(
          m.parameter("weight"),
          {.mode = nn::init::FanMode::fan_out, .nonlinearity = nn::init::Nonlinearity::relu});
    if (!zero_init_residual) return;
    if (m.type() == "BasicBlock") nn::init::zeros_(m.parameter("bn2.weight"));
    if (m.type() == "Bottleneck") nn::init::zeros_(m.parameter("bn3.weight"));
  });
}

}  // namespace

BasicBlock::BasicBlock(i64 in, i64 out, i64 stride)
    : conv1(add("conv1", resnet_conv(in, out, 3, stride))),
      bn1(add("bn1", resnet_norm(out, Activation::relu))),
      conv2(add("conv2", resnet_conv(out, out, 3))),
      bn2(add("bn2", resnet_norm(out))),
      downsample(shortcut(in, out, stride)) {
  if (downsample) add("downsample", *downsample);
}

Tensor BasicBlock::forward(Tensor x) {
  const Tensor y = bn2(conv2(bn1(conv1(x))));
  return relu(y + (downsample ? (*downsample)(std::move(x)) : x));
}

Bottleneck::Bottleneck(i64 in, i64 width, i64 stride)
    : conv1(add("conv1", resnet_conv(in, width, 1))),
      bn1(add("bn1", resnet_norm(width, Activation::relu))),
      conv2(add("conv2", resnet_conv(width, width, 3, stride))),
      bn2(add("bn2", resnet_norm(width, Activation::relu))),
      conv3(add("conv3", resnet_conv(width, width * kExpansion, 1))),
      bn3(add("bn3", resnet_norm(width * kExpansion))),
      downsample(shortcut(in, width * kExpansion, stride)) {
  if (downsample) add("downsample", *downsample);
}

Tensor Bottleneck::forward(Tensor x) {
  const Tensor y = bn3(conv3(bn2(conv2(bn1(conv1(x))))));
  return relu(y + (downsample ? (*downsample)(std::move(x)) : x));
}

ResNet::ResNet(ResNetBlock block, const std::array<i64, 4>& blocks, const ResNetOptions& o)
    : conv1(add("conv1", o.cifar_stem ? resnet_conv(o.in_channels, o.width, 3)
                                      : resnet_conv(o.in_channels, o.width, 7, 2))),
      bn1(add("bn1", resnet_norm(o.width, Activation::relu))),
      layer1(add("layer1", resnet_stage(1, block, o.width, blocks[0]))),
      layer2(add("layer2", resnet_stage(2, block, o.width, blocks[1]))),
      layer3(add("layer3", resnet_stage(3, block, o.width, blocks[2]))),
      layer4(add("layer4", resnet_stage(4, block, o.width, blocks[3]))),
      fc(add("fc", nn::Linear{channels_behind(block, 8 * o.width), o.classes})),
      pool_(!o.cifar_stem) {
  begin_resnet(*this, o.zero_init_residual);
}

Tensor ResNet::forward(Tensor x) {
  x = bn1(conv1(std::move(x)));
  if (pool_) x = max_pool2d(std::move(x), 3, {.stride = 2, .padding = 1});
  x = layer4(layer3(layer2(layer1(std::move(x)))));
  return fc(adaptive_avg_pool2d(std::move(x), 1).flatten(1));
}

ResNet resnet18(const ResNetOptions& o) { return {ResNetBlock::basic, {2, 2, 2, 2}, o}; }
ResNet resnet34(const ResNetOptions& o) { return {ResNetBlock::basic, {3, 4, 6, 3}, o}; }
ResNet resnet50(const ResNetOptions& o) { return {ResNetBlock::bottleneck, {3, 4, 6, 3}, o}; }

}  // namespace wt::models
