// Normalisation layers beside LayerNorm (nn/layers.h). Names and defaults are PyTorch's.
#pragma once
#include <optional>

#include "warptape/nn/module.h"

namespace wt::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: running statistics average all batches
  bool affine = true;                    // false: neither weight nor bias
  bool track_running_stats = true;       // false: those of the batch, in evaluation too
  DType dtype = DType::f32;
};
// Each channel normalised over all samples: by the batch's statistics in training, which also moves
// the running ones, and by the running ones in evaluation (wt::batch_norm). weight starts as ones,
// bias and running_mean as zeros, running_var as ones. The running statistics are buffers:
// TrainStep puts them back when it skips a step. Throws ShapeError for another rank or number of
// channels.
class WT_API BatchNorm : public Module<BatchNorm> {
 public:
  Tensor forward(Tensor x);
  Param weight;
  Param bias;
  Buffer running_mean;
  Buffer running_var;
  Buffer num_batches_tracked;  // i64

 protected:
  BatchNorm(const char* type, i64 channels, const BatchNormOptions& o, int least_axes,
            int most_axes);

 private:
  BatchNormOptions options_;
  int least_axes_, most_axes_;
};
// x is [N, C] or [N, C, L].
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(i64 channels, const BatchNormOptions& o = {})
      : BatchNorm("BatchNorm1d", channels, o, 2, 3) {}
};
// x is [N, C, H, W].
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(i64 channels, const BatchNormOptions& o = {})
      : BatchNorm("BatchNorm2d", channels, o, 4, 4) {}
};
// x is [N, C, D, H, W].
struct BatchNorm3d : BatchNorm {
  explicit BatchNorm3d(i64 channels, const BatchNormOptions& o = {})
      : BatchNorm("BatchNorm3d", channels, o, 5, 5) {}
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  // false: neither weight nor bias
  DType dtype = DType::f32;
};
// Each sample's channels normalised in groups (wt::group_norm). weight starts as ones, bias as
// zeros. Throws ShapeError unless groups divides the channels.
class WT_API GroupNorm : public Module<GroupNorm> {
 public:
  GroupNorm(i64 groups, i64 channels, const GroupNormOptions& o = {});
  Tensor forward(Tensor x);
  Param weight;
  Param bias;

 private:
  i64 groups_;
  double eps_;
};

// x / sqrt(mean(x^2) + eps) * weight over the last axes (wt::rms_norm). weight starts as ones.
struct RMSNormOptions {
  std::optional<double> eps{};     // none: the machine epsilon of what is computed in
  bool elementwise_affine = true;  // false: no weight
  DType dtype = DType::f32;
};
class WT_API RMSNorm : public Module<RMSNorm> {
 public:
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& o = {});
  explicit RMSNorm(i64 features, const RMSNormOptions& o = {}) : RMSNorm(Shape{features}, o) {}
  Tensor forward(Tensor x);
  Param weight;

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

}  // namespace wt::nn
