// EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946) with the names and beginnings of
// torchvision.models: its weights load as they are.
#pragma once
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"

namespace wt::models {

// What is left to choose in an EfficientNet; the defaults are torchvision's for B0.
struct EfficientNetOptions {
  i64 classes = 1000;             // logits of an image
  i64 in_channels = 3;            // of the images
  double dropout = 0.2;           // before the last layer
  double stochastic_depth = 0.2;  // of block i of n it is i / n of this: 0 of the first
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(stochastic_depth_prob, stochastic_depth);
};

// A run of `count` blocks from `in` to `out` channels with a `kernel` of that size, the first of
// them with the stride, whose inner width is `expand` times what comes in.
struct MbConvStage {
  // expand is a factor, kernel and stride are of both axes, in and out channels, count blocks.
  i64 expand, kernel, stride, in, out, count;
};

// A mobile block: 1 x 1 to the inner width, k x k on each channel by itself, squeeze and
// excitation, 1 x 1; with the way past it where the shape stays.
class WT_API MBConv : public nn::Module<MBConv> {
 public:
  // From `in` to `out` channels with this stride; of `stage` expand and kernel count. Throws
  // ShapeError for channels below 1, UsageError for a kernel or stride below 1 and a
  // stochastic_depth outside [0, 1].
  MBConv(i64 in, i64 out, const MbConvStage& stage, i64 stride, double stochastic_depth);
  // [N, in, H, W] to [N, out, H / stride, W / stride], rounded up where the kernel is odd.
  Tensor forward(Tensor x);
  nn::Sequential block;                  // without expansion it begins with the second part
  nn::StochasticDepth stochastic_depth;  // of `block`, where there is a way past it

 private:
  bool adds_;
};

// Images [N, in_channels, H, W] to logits [N, classes]; the picture is halved five times. `last` is
// the width before the logits. Throws ShapeError for sizes below 1.
class WT_API EfficientNet : public nn::Module<EfficientNet> {
 public:
  // These stages between a first convolution of stride 2 and one of 1 x 1 to `last` channels.
  EfficientNet(const std::vector<MbConvStage>& stages, i64 last, const EfficientNetOptions& o);
  // [N, in_channels, H, W] to [N, classes].
  Tensor forward(Tensor x);
  // features is all but the pooling over the picture and the classifier: dropout and Linear.
  nn::Sequential features, classifier;
};
// B0: seven stages of 16 blocks, 1280 channels before the logits; 5.3 million parameters with 1000
// classes.
WT_API EfficientNet efficientnet_b0(const EfficientNetOptions& o = {});

}  // namespace wt::models
