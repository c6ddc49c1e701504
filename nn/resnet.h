// Residual networks (He et al. 2015, arXiv:1512.03385) with the names and beginnings of
// torchvision.models: its weights load as they are.
//
//   auto net = models::resnet18({.classes = 10, .cifar_stem = true});
//   Tensor logits = net(images);                       // [N, 3, 32, 32] -> [N, 10]
#pragma once
#include <array>
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"

namespace wt::models {

struct ResNetOptions {
  i64 classes = 1000;
  i64 in_channels = 3;
  i64 width = 64;           // channels of the first stage; each later one has twice as many
  bool cifar_stem = false;  // a convolution of 3 x 3 without stride, no pooling: for 32 x 32 pixels
  bool zero_init_residual = false;  // blocks begin as the identity (Goyal et al. 2017)
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED_SAYS(weights, "load them: models::load(\"resnet18\", path)");
  WT_MISNAMED_SAYS(pretrained, "load them: models::load(\"resnet18\", path)");
};

// Two convolutions of 3 x 3 and the way past them: [N, in, H, W] to [N, out, H / stride, W /
// stride].
class WT_API BasicBlock : public nn::Module<BasicBlock> {
 public:
  static constexpr i64 kExpansion = 1;
  BasicBlock(i64 in, i64 out, i64 stride);
  Tensor forward(Tensor x);
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;  // and relu
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Sequential> downsample;  // where x has another shape than the result
};

// 1 x 1 to `width` channels, 3 x 3 with the stride, 1 x 1 to 4 width channels.
class WT_API Bottleneck : public nn::Module<Bottleneck> {
 public:
  static constexpr i64 kExpansion = 4;
  Bottleneck(i64 in, i64 width, i64 stride);
  Tensor forward(Tensor x);
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;  // and relu
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;  // and relu
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  std::optional<nn::Sequential> downsample;
};

enum class ResNetBlock : u8 { basic, bottleneck };

// Images [N, in_channels, H, W] to logits [N, classes]. `blocks` of the four stages; the last three
// halve the picture, and so do both parts of the ImageNet stem. Convolutions begin as
// kaiming_normal_ by their fan out, norms as 1 and 0. Throws ShapeError for sizes below 1.
class WT_API ResNet : public nn::Module<ResNet> {
 public:
  ResNet(ResNetBlock block, const std::array<i64, 4>& blocks, const ResNetOptions& o = {});
  Tensor forward(Tensor x);
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;  // and relu
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc;

 private:
  bool pool_;
};

WT_API ResNet resnet18(const ResNetOptions& o = {});
WT_API ResNet resnet34(const ResNetOptions& o = {});
WT_API ResNet resnet50(const ResNetOptions& o = {});

}  // namespace wt::models
