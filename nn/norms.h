// Normalisation layers. Names and defaults are PyTorch's.
#pragma once
#include <optional>

#include "warptape/autograd/ops/add_norm.h"
#include "warptape/core/activation.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// What a LayerNorm is made with.
struct LayerNormLayerOptions {
  double eps = 1e-5;               // added to the variance; below 0 a UsageError of the call
  bool elementwise_affine = true;  // false: neither weight nor bias
  bool bias = true;                // false: a weight alone
  DType dtype = DType::f32;        // of weight and bias
};
// Over the last axes, which must be normalized_shape: (x - mean) / sqrt(var + eps) * weight + bias
// (wt::layer_norm). weight starts as ones, bias as zeros, both of normalized_shape.
class WT_API LayerNorm : public Module<LayerNorm> {
 public:
  // The last axes, or the one last axis of `features`. Throws ShapeError for no axis.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormLayerOptions& o = {},
                     const CallLine& = {});
  explicit LayerNorm(i64 features, const LayerNormLayerOptions& o = {}, const CallLine& = {})
      : LayerNorm(Shape{features}, o) {}
  // [..., normalized_shape] to the same shape. Throws ShapeError and DtypeError.
  Tensor forward(Tensor x);
  // The norm of x + residual, and that sum, in one kernel (wt::add_layer_norm). Hooks are called as
  // by a call with the sum, which then is made first.
  AddNormResult of_sum(Tensor x, const Tensor& residual);
  Param weight;  // normalized_shape; undefined without elementwise_affine
  Param bias;    // normalized_shape; undefined without it or {.bias = false}

 private:
  Shape normalized_shape_;
  double eps_;
};

namespace detail {
// What norms by channel with running statistics hold, each undefined where the options say no:
// weight begins as ones, bias and running_mean as zeros, running_var as ones.
template <class Self>
class ChannelNorm : public Module<Self> {
 public:
  Param weight;                // [C]
  Param bias;                  // [C]
  Buffer running_mean;         // [C]
  Buffer running_var;          // [C]
  Buffer num_batches_tracked;  // i64, 0-d

 protected:
  ChannelNorm(const char* type, i64 channels, DType dtype, bool affine, bool track_running_stats);
};
}  // namespace detail

// The sum of a tensor over ranks that train one model, differentiable.
using SumOverRanks = std::function<Tensor(const Tensor&)>;

// What a BatchNorm1d, 2d or 3d is made with.
struct BatchNormLayerOptions {
  double eps = 1e-5;                         // added to the variance
  std::optional<double> momentum = 0.1;      // none: running statistics average all batches
  bool affine = true;                        // false: neither weight nor bias
  bool track_running_stats = true;           // false: those of the batch, in evaluation too
  DType dtype = DType::f32;                  // of weight, bias and running statistics
  Activation activation = Activation::none;  // behind the norm (wt::fused_batch_norm)
};
// Each channel normalised over all samples: by the batch's statistics in training, which also moves
// the running ones, and by the running ones in evaluation (wt::batch_norm). The running statistics
// are buffers: TrainStep puts them back when it skips a step. Throws ShapeError for another rank or
// number of channels, and in training for fewer than two values a channel; UsageError of the call
// for an eps below 0 and a momentum outside [0, 1].
class WT_API BatchNorm : public detail::ChannelNorm<BatchNorm> {
 public:
  // [N, C, ...] to the same shape. In training it moves the running statistics.
  Tensor forward(Tensor x);
  // Has all batch norms of a model, by its tree, take in training the statistics of all ranks'
  // samples from here on (PyTorch's SyncBatchNorm), made of operators in f32 or wider; an empty
  // function ends that. Returns how many layers there are. dist/sync_batch_norm.h knows the ranks.
  static i64 sum_over_ranks(const ModuleBase& net, const SumOverRanks& sum);

 protected:
  BatchNorm(const char* type, i64 channels, const BatchNormLayerOptions& o, int least_axes,
            int most_axes);

 private:
  Tensor forward_over_ranks(const Tensor& x, const SumOverRanks& sum);

  BatchNormLayerOptions options_;
  int least_axes_, most_axes_;
};
// A BatchNorm of x [N, C] or [N, C, L].
struct BatchNorm1d : Derived<BatchNorm1d, BatchNorm> {
  // Throws ShapeError for channels below 1.
  explicit BatchNorm1d(i64 channels, const BatchNormLayerOptions& o = {}, const CallLine& = {})
      : Derived("BatchNorm1d", channels, o, 2, 3) {}
};
// A BatchNorm of x [N, C, H, W].
struct BatchNorm2d : Derived<BatchNorm2d, BatchNorm> {
  // Throws ShapeError for channels below 1.
  explicit BatchNorm2d(i64 channels, const BatchNormLayerOptions& o = {}, const CallLine& = {})
      : Derived("BatchNorm2d", channels, o, 4, 4) {}
};
// A BatchNorm of x [N, C, D, H, W].
struct BatchNorm3d : Derived<BatchNorm3d, BatchNorm> {
  // Throws ShapeError for channels below 1.
  explicit BatchNorm3d(i64 channels, const BatchNormLayerOptions& o = {}, const CallLine& = {})
      : Derived("BatchNorm3d", channels, o, 5, 5) {}
};

// What a GroupNorm is made with.
struct GroupNormLayerOptions {
  double eps = 1e-5;                         // added to the variance
  bool affine = true;                        // false: neither weight nor bias
  DType dtype = DType::f32;                  // of weight and bias
  Activation activation = Activation::none;  // behind the norm (wt::fused_group_norm)
};
// Each sample's channels normalised in groups (wt::group_norm). weight starts as ones, bias as
// zeros. Throws ShapeError unless groups divides the channels.
class WT_API GroupNorm : public Module<GroupNorm> {
 public:
  // Groups of channels / groups neighbours. Throws ShapeError for channels or groups below 1 too.
  GroupNorm(i64 groups, i64 channels, const GroupNormLayerOptions& o = {}, const CallLine& = {});
  // [N, C, ...] to the same shape. Throws ShapeError and DtypeError.
  Tensor forward(Tensor x);
  Param weight;  // [C]; undefined without affine
  Param bias;    // [C]; undefined without affine

 private:
  i64 groups_;
  double eps_;
  Activation activation_;
};

// What an InstanceNorm1d, 2d or 3d is made with.
struct InstanceNormLayerOptions {
  double eps = 1e-5;                         // added to the variance
  double momentum = 0.1;                     // part of the batch in the running statistics
  bool affine = false;                       // true: weight and bias
  bool track_running_stats = false;          // true: running statistics, used in evaluation
  DType dtype = DType::f32;                  // of weight, bias and running statistics
  Activation activation = Activation::none;  // behind the norm (wt::fused_instance_norm)
};
// Each channel of each sample normalised by its own mean and variance (wt::instance_norm).
// Beginnings and buffers are BatchNorm's. Throws ShapeError for another rank or number of channels.
class WT_API InstanceNorm : public detail::ChannelNorm<InstanceNorm> {
 public:
  // [N, C, ...] or [C, ...] to the same shape. In training it moves running statistics, if any;
  // num_batches_tracked stays what it is.
  Tensor forward(Tensor x);

 protected:
  InstanceNorm(const char* type, i64 channels, const InstanceNormLayerOptions& o, int axes);

 private:
  InstanceNormLayerOptions options_;
  i64 channels_;
  int axes_;  // without the samples'
};
// An InstanceNorm of x [N, C, L] or [C, L].
struct InstanceNorm1d : Derived<InstanceNorm1d, InstanceNorm> {
  // Throws ShapeError for channels below 1.
  explicit InstanceNorm1d(i64 channels, const InstanceNormLayerOptions& o = {},
                          const CallLine& = {})
      : Derived("InstanceNorm1d", channels, o, 2) {}
};
// An InstanceNorm of x [N, C, H, W] or [C, H, W].
struct InstanceNorm2d : Derived<InstanceNorm2d, InstanceNorm> {
  // Throws ShapeError for channels below 1.
  explicit InstanceNorm2d(i64 channels, const InstanceNormLayerOptions& o = {},
                          const CallLine& = {})
      : Derived("InstanceNorm2d", channels, o, 3) {}
};
// An InstanceNorm of x [N, C, D, H, W] or [C, D, H, W].
struct InstanceNorm3d : Derived<InstanceNorm3d, InstanceNorm> {
  // Throws ShapeError for channels below 1.
  explicit InstanceNorm3d(i64 channels, const InstanceNormLayerOptions& o = {},
                          const CallLine& = {})
      : Derived("InstanceNorm3d", channels, o, 4) {}
};

// What a LocalResponseNorm is made with.
struct LocalResponseNormOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;  // as in its formula
};
// x / (k + alpha mean)^beta, mean being that of x^2 over `size` neighbouring channels, zeros beyond
// the first and last (Krizhevsky et al. 2012). x is [N, C, d...]. Throws ShapeError for fewer than
// three axes and for size below 1.
class WT_API LocalResponseNorm : public Module<LocalResponseNorm> {
 public:
  // How many neighbouring channels, at least 1.
  explicit LocalResponseNorm(i64 size, const LocalResponseNormOptions& o = {},
                             const CallLine& = {});
  // [N, C, d...] to the same shape.
  Tensor forward(Tensor x);

 private:
  i64 size_;
  LocalResponseNormOptions options_;
};

// What an RMSNorm is made with.
struct RMSNormOptions {
  std::optional<double> eps{};     // none: the machine epsilon of what is computed in
  bool elementwise_affine = true;  // false: no weight
  DType dtype = DType::f32;        // of the weight
};
// x / sqrt(mean(x^2) + eps) * weight over the last axes, which must be normalized_shape
// (wt::rms_norm). weight starts as ones.
class WT_API RMSNorm : public Module<RMSNorm> {
 public:
  // The last axes, or the one last axis of `features`. Throws ShapeError for no axis.
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& o = {},
                   const CallLine& = {});
  explicit RMSNorm(i64 features, const RMSNormOptions& o = {}, const CallLine& = {})
      : RMSNorm(Shape{features}, o) {}
  // [..., normalized_shape] to the same shape. Throws ShapeError and DtypeError.
  Tensor forward(Tensor x);
  // The norm of x + residual, and that sum, in one kernel (wt::add_rms_norm); hooks as LayerNorm's.
  AddNormResult of_sum(Tensor x, const Tensor& residual);
  Param weight;  // normalized_shape; undefined without elementwise_affine

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

}  // namespace wt::nn
