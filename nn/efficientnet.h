// EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946) with the names and beginnings of
// torchvision.models: its weights load as they are.
#pragma once
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"

namespace wt::models {

struct EfficientNetOptions {
  i64 classes = 1000;
  i64 in_channels = 3;
  double dropout = 0.2;           // before the last layer
  double stochastic_depth = 0.2;  // of the last block; it grows with depth from 0
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(stochastic_depth_prob, stochastic_depth);
};

// `count` blocks, the first with the stride, whose inner width is `expand` times what comes in.
struct MbConvStage {
  i64 expand, kernel, stride, in, out, count;
};

// 1 x 1 to the inner width, k x k on each channel by itself, squeeze and excitation, 1 x 1; with
// the way past it where the shape stays.
class WT_API MBConv : public nn::Module<MBConv> {
 public:
  MBConv(i64 in, i64 out, const MbConvStage& stage, i64 stride, double stochastic_depth);
  Tensor forward(Tensor x);
  nn::Sequential block;
  nn::StochasticDepth stochastic_depth;

 private:
  bool adds_;
};

// Images [N, in_channels, H, W] to logits [N, classes]; the picture is halved five times. `last` is
// the width before the logits. Throws ShapeError for sizes below 1.
class WT_API EfficientNet : public nn::Module<EfficientNet> {
 public:
  EfficientNet(const std::vector<MbConvStage>& stages, i64 last, const EfficientNetOptions& o);
  Tensor forward(Tensor x);
  nn::Sequential features, classifier;
};
WT_API EfficientNet efficientnet_b0(const EfficientNetOptions& o = {});

}  // namespace wt::models
