// Normalisation by channels: x is [N, C] or [N, C, d...], its memory NCHW or NHWC, which the result
// keeps. f64 f32 f16 bf16, one dtype for x, weight and bias (16 bits compute in f32). Large offsets
// do not cancel, and sums have a fixed order whatever the number of threads.
#pragma once
#include <optional>

#include "warptape/core/activation.h"
#include "warptape/core/in.h"

namespace wt {

struct BatchNormOptions {
  Tensor weight{}, bias{};               // [C] each, or none: 1 and 0
  Tensor running_mean{}, running_var{};  // [C] each, or none; written in training
  bool training = false;
  std::optional<double> momentum = 0.1;  // none: running statistics are the average of all batches
  Tensor num_batches_tracked{};  // i64, 0-d, counted up in training; needed for that average
  double eps = 1e-5;
};
// Each channel normalised: (x - mean) / sqrt(var + eps) * weight + bias (Ioffe and Szegedy 2015,
// arXiv:1502.03167). In training, and where there are no running statistics, mean and var are those
// of the channel over all samples and places, with var the mean of (x - mean)^2; otherwise the
// running ones. Training moves the running statistics, of any floating dtype, after all else has
// succeeded: running = (1 - momentum) running + momentum batch, with the unbiased variance there. A
// recomputation (checkpoint) leaves them alone, and TrainStep puts them back when it skips a step.
//
// Throws ShapeError for fewer than two axes, for parameters that are not [C], and when training
// with fewer than two values a channel; DtypeError; UsageError for one of the running statistics
// without the other, none of them outside training, momentum outside [0, 1], eps below 0.
WT_API Tensor batch_norm(const In& x, const BatchNormOptions& options = {});
inline Tensor batch_norm(const In& x, const Tensor& weight, const Tensor& bias,
                         BatchNormOptions options = {}) {
  options.weight = weight, options.bias = bias;
  return batch_norm(x, options);
}

struct GroupNormOptions {
  Tensor weight{}, bias{};  // [C] each, or none: 1 and 0
  double eps = 1e-5;
};
// Each sample's channels in `groups` groups of neighbours, normalised by the mean and variance of a
// group: (x - mean) / sqrt(var + eps) * weight + bias, with weight and bias for each channel (Wu
// and He 2018, arXiv:1803.08494). Throws ShapeError unless groups divides the channels, for fewer
// than two axes, for parameters that are not [C], and for one value a group in all (as PyTorch
// does).
WT_API Tensor group_norm(const In& x, i64 groups, const GroupNormOptions& options = {});
inline Tensor group_norm(const In& x, i64 groups, const Tensor& weight, const Tensor& bias,
                         GroupNormOptions options = {}) {
  options.weight = weight, options.bias = bias;
  return group_norm(x, groups, options);
}

struct InstanceNormOptions {
  Tensor weight{}, bias{};               // [C] each, or none: 1 and 0
  Tensor running_mean{}, running_var{};  // [C] each, or none; written with use_input_stats
  bool use_input_stats = true;           // false: the running statistics
  double momentum = 0.1;
  double eps = 1e-5;
};
// Each channel of each sample normalised by its own mean and variance (Ulyanov, Vedaldi, Lempitsky
// 2016, arXiv:1607.08022): (x - mean) / sqrt(var + eps) * weight + bias. Running statistics, where
// given, move towards the samples' mean of their means and of their unbiased variances, as
// batch_norm's do. Throws what batch_norm throws, and ShapeError for fewer than two places a
// channel.
WT_API Tensor instance_norm(const In& x, const InstanceNormOptions& options = {});
inline Tensor instance_norm(const In& x, const Tensor& weight, const Tensor& bias,
                            InstanceNormOptions options = {}) {
  options.weight = weight, options.bias = bias;
  return instance_norm(x, options);
}

// f(batch_norm(x, options)), f the activation, in one kernel: behind a convolution x is all that is
// saved, beside its statistics and the parameters, as backward makes the norm's result z again in
// registers and takes f'(z) from it. The values are those of the two operators (in f32 the same
// numbers), but that z is not rounded to 16 bits in between. Throws what batch_norm throws.
WT_API Tensor fused_batch_norm(const In& x, Activation activation,
                               const BatchNormOptions& options = {});
// f(group_norm(x, groups, options)), as fused_batch_norm.
WT_API Tensor fused_group_norm(const In& x, i64 groups, Activation activation,
                               const GroupNormOptions& options = {});
// f(instance_norm(x, options)), as fused_batch_norm.
WT_API Tensor fused_instance_norm(const In& x, Activation activation,
                                  const InstanceNormOptions& options = {});

}  // namespace wt
