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

// The sizes of a ResNet, and what it begins with; defaults are torchvision's for ImageNet.
struct ResNetOptions {
  i64 classes = 1000;       // of the logits
  i64 in_channels = 3;      // of the images
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
  // Channels of the result over those of the block's width.
  static constexpr i64 kExpansion = 1;
  // Channels of x and of the result; the stride of the first convolution.
  BasicBlock(i64 in, i64 out, i64 stride);
  // [N, in, H, W] to [N, out, H / stride, W / stride], rounded up.
  Tensor forward(Tensor x);
  nn::Conv2d conv1;                          // 3 x 3 with the stride
  nn::BatchNorm2d bn1;                       // and relu
  nn::Conv2d conv2;                          // 3 x 3
  nn::BatchNorm2d bn2;                       // relu comes after the sum
  std::optional<nn::Sequential> downsample;  // where x has another shape than the result
};

// Three convolutions and the way past them: 1 x 1 to `width` channels, 3 x 3 with the stride, 1 x 1
// to 4 width channels.
class WT_API Bottleneck : public nn::Module<Bottleneck> {
 public:
  // Channels of the result over those of the block's width.
  static constexpr i64 kExpansion = 4;
  // Channels of x and in the middle; the stride of the 3 x 3 convolution.
  Bottleneck(i64 in, i64 width, i64 stride);
  // [N, in, H, W] to [N, 4 width, H / stride, W / stride], rounded up.
  Tensor forward(Tensor x);
  nn::Conv2d conv1;                          // 1 x 1
  nn::BatchNorm2d bn1;                       // and relu
  nn::Conv2d conv2;                          // 3 x 3 with the stride
  nn::BatchNorm2d bn2;                       // and relu
  nn::Conv2d conv3;                          // 1 x 1
  nn::BatchNorm2d bn3;                       // relu comes after the sum
  std::optional<nn::Sequential> downsample;  // where x has another shape than the result
};

// What a ResNet is made of: basic, BasicBlock; bottleneck, Bottleneck.
enum class ResNetBlock : u8 { basic, bottleneck };

// Images [N, in_channels, H, W] to logits [N, classes]. `blocks` of the four stages; the last three
// halve the picture, and so do both parts of the ImageNet stem. Convolutions begin as
// kaiming_normal_ by their fan out, norms as 1 and 0. Throws ShapeError for sizes below 1.
class WT_API ResNet : public nn::Module<ResNet> {
 public:
  // The kind of block and how many of them each stage has.
  ResNet(ResNetBlock block, const std::array<i64, 4>& blocks, const ResNetOptions& o = {});
  // [N, in_channels, H, W] to [N, classes].
  Tensor forward(Tensor x);
  nn::Conv2d conv1;                               // the stem
  nn::BatchNorm2d bn1;                            // and relu
  nn::Sequential layer1, layer2, layer3, layer4;  // the stages
  nn::Linear fc;                                  // of the mean over the picture

 private:
  bool pool_;
};

// 2, 2, 2, 2 BasicBlocks: 11.7 million parameters with the defaults.
WT_API ResNet resnet18(const ResNetOptions& o = {});
// 3, 4, 6, 3 BasicBlocks: 21.8 million parameters with the defaults.
WT_API ResNet resnet34(const ResNetOptions& o = {});
// 3, 4, 6, 3 Bottlenecks: 25.6 million parameters with the defaults.
WT_API ResNet resnet50(const ResNetOptions& o = {});

}  // namespace wt::models
