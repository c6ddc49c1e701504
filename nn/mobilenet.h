// MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381) and V3 small (Howard et al. 2019,
// arXiv:1905.02244) with the names and beginnings of torchvision.models: its weights load as they
// are.
#pragma once
#include <optional>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"

namespace wt::models {

// What MobileNetV2 and MobileNetV3 are made with.
struct MobileNetOptions {
  i64 classes = 1000;    // logits of a picture
  i64 in_channels = 3;   // of the pictures
  double width = 1;      // factor on all channels, rounded to multiples of 8
  double dropout = 0.2;  // before the last layer
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(width_mult, width);
};

// A stage of V2: `count` blocks, the first with the stride, whose inner width is `expand` times
// what comes in.
struct InvertedStage {
  i64 expand, channels, count, stride;  // channels: what goes out, before MobileNetOptions::width
};

// A block of V2: 1 x 1 to the inner width, 3 x 3 on each channel by itself, 1 x 1 without
// activation; with the way past it where the shape stays.
class WT_API InvertedResidual : public nn::Module<InvertedResidual> {
 public:
  // The inner width is in * expand; with an expand of 1 there is no first convolution. Throws
  // ShapeError for channels below 1, UsageError for a stride below 1.
  InvertedResidual(i64 in, i64 out, i64 stride, i64 expand);
  // [N, in, H, W] to [N, out, H / stride, W / stride], rounded up.
  Tensor forward(Tensor x);
  nn::Sequential conv;  // all of it, as "conv.0", "conv.1", ...

 private:
  bool adds_;
};

// MobileNetV2: images [N, in_channels, H, W] to logits [N, classes]; the picture is halved five
// times. Throws ShapeError for sizes below 1, UsageError for a dropout outside [0, 1].
class WT_API MobileNetV2 : public nn::Module<MobileNetV2> {
 public:
  // The paper's stages.
  explicit MobileNetV2(const MobileNetOptions& o = {});
  // Other stages than the paper's, between its first convolution and its last.
  MobileNetV2(const std::vector<InvertedStage>& stages, const MobileNetOptions& o);
  // [N, in_channels, H, W] to [N, classes].
  Tensor forward(Tensor x);
  nn::Sequential features, classifier;  // up to the mean over the picture, and behind it
};
// MobileNetV2 as torchvision's mobilenet_v2: 3.5 million parameters with 1000 classes.
WT_API MobileNetV2 mobilenet_v2(const MobileNetOptions& o = {});

// The numbers of a block of V3.
struct MobileNetV3Block {
  i64 in, kernel, inner, out;  // channels in, in the middle and out; kernel is that of the middle
  bool squeezes, hardswish;    // squeezes: with squeeze and excitation; hardswish: else relu
  i64 stride;                  // of the middle
};

// A block of V3: 1 x 1 to the inner width (none where that is `in`), kernel x kernel on each
// channel by itself, squeeze and excitation if wanted, 1 x 1 without activation; with the way past
// it where the shape stays.
class WT_API InvertedResidualV3 : public nn::Module<InvertedResidualV3> {
 public:
  // Throws ShapeError for channels below 1, UsageError for a kernel or a stride below 1.
  explicit InvertedResidualV3(const MobileNetV3Block& b);
  // [N, in, H, W] to [N, out, H / stride, W / stride], rounded up.
  Tensor forward(Tensor x);
  nn::Sequential block;  // all of it, as "block.0", "block.1", ...

 private:
  bool adds_;
};

// MobileNetV3: images [N, in_channels, H, W] to logits [N, classes]. Throws as MobileNetV2, and
// ShapeError without blocks.
class WT_API MobileNetV3 : public nn::Module<MobileNetV3> {
 public:
  // Blocks as they are, whatever o.width; `last` is the width of the layer before the logits.
  MobileNetV3(const std::vector<MobileNetV3Block>& blocks, i64 last, const MobileNetOptions& o);
  // [N, in_channels, H, W] to [N, classes].
  Tensor forward(Tensor x);
  nn::Sequential features, classifier;  // up to the mean over the picture, and behind it
};
// MobileNetV3 small as torchvision's mobilenet_v3_small: 2.5 million parameters with 1000 classes.
WT_API MobileNetV3 mobilenet_v3_small(const MobileNetOptions& o = {});

}  // namespace wt::models
