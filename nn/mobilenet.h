// MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381) and V3 small (Howard et al. 2019,
// arXiv:1905.02244) with the names and beginnings of torchvision.models: its weights load as they
// are.
#pragma once
#include <optional>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"

namespace wt::models {

struct MobileNetOptions {
  i64 classes = 1000;
  i64 in_channels = 3;
  double width = 1;      // factor on all channels, rounded to multiples of 8
  double dropout = 0.2;  // before the last layer
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(width_mult, width);
};

// A stage of V2: `count` blocks, the first with the stride, whose inner width is `expand` times
// what comes in.
struct InvertedStage {
  i64 expand, channels, count, stride;
};

// 1 x 1 to the inner width, 3 x 3 on each channel by itself, 1 x 1 without activation; with the way
// past it where the shape stays.
class WT_API InvertedResidual : public nn::Module<InvertedResidual> {
 public:
  InvertedResidual(i64 in, i64 out, i64 stride, i64 expand);
  Tensor forward(Tensor x);
  nn::Sequential conv;

 private:
  bool adds_;
};

// Images [N, in_channels, H, W] to logits [N, classes]; the picture is halved five times. Throws
// ShapeError for sizes below 1.
class WT_API MobileNetV2 : public nn::Module<MobileNetV2> {
 public:
  explicit MobileNetV2(const MobileNetOptions& o = {});
  // Other stages than the paper's.
  MobileNetV2(const std::vector<InvertedStage>& stages, const MobileNetOptions& o);
  Tensor forward(Tensor x);
  nn::Sequential features, classifier;
};
WT_API MobileNetV2 mobilenet_v2(const MobileNetOptions& o = {});

// A block of V3. `squeezes`: with squeeze and excitation; `hardswish`: else relu.
struct MobileNetV3Block {
  i64 in, kernel, inner, out;
  bool squeezes, hardswish;
  i64 stride;
};

class WT_API InvertedResidualV3 : public nn::Module<InvertedResidualV3> {
 public:
  explicit InvertedResidualV3(const MobileNetV3Block& b);
  Tensor forward(Tensor x);
  nn::Sequential block;

 private:
  bool adds_;
};

// As MobileNetV2; `last` is the width of the layer before the logits.
class WT_API MobileNetV3 : public nn::Module<MobileNetV3> {
 public:
  MobileNetV3(const std::vector<MobileNetV3Block>& blocks, i64 last, const MobileNetOptions& o);
  Tensor forward(Tensor x);
  nn::Sequential features, classifier;
};
WT_API MobileNetV3 mobilenet_v3_small(const MobileNetOptions& o = {});

}  // namespace wt::models
