#include "warptape/nn/norms.h"

#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pad.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {
using detail::at_least_1;
using detail::make_buffer;
using detail::make_constant;

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormLayerOptions& o, const CallLine&)
    : weight(add("weight", make_constant(normalized_shape, o.dtype, 1, o.elementwise_affine))),
      bias(
          add("bias", make_constant(normalized_shape, o.dtype, 0, o.elementwise_affine && o.bias))),
      normalized_shape_(normalized_shape),
      eps_(o.eps) {
  if (normalized_shape.empty())
    throw ShapeError(
        str("[LayerNorm] normalized_shape has no axis, at least 1 is needed", at_line()));
}

Tensor LayerNorm::forward(Tensor x) {
  const wt::LayerNormOptions options{.eps = eps_};
  if (bias.defined()) return layer_norm(std::move(x), normalized_shape_, weight, bias, options);
  if (weight.defined()) return layer_norm(std::move(x), normalized_shape_, weight, options);
  return layer_norm(std::move(x), normalized_shape_, options);
}

// For norms with hooks, which are about the sum.
template <class Norm>
static AddNormResult called_with_sum(Norm& norm, Tensor x, const Tensor& residual) {
  AddNormResult r;
  r.sum = std::move(x) + residual;
  r.y = norm(r.sum);
  return r;
}

AddNormResult LayerNorm::of_sum(Tensor x, const Tensor& residual) {
  if (!state_->hooks.empty()) return called_with_sum(*this, std::move(x), residual);
  const detail::CallScope scope(*this, Frame{});
  return add_layer_norm(std::move(x), residual, normalized_shape_,
                        {.weight = weight, .bias = bias, .eps = eps_});
}

template <class Self>
detail::ChannelNorm<Self>::ChannelNorm(const char* type, i64 c, DType dtype, bool affine,
                                       bool track)
    : weight(
          this->add("weight", make_constant({at_least_1(type, "channels", c)}, dtype, 1, affine))),
      bias(this->add("bias", make_constant({c}, dtype, 0, affine))),
      running_mean(this->add_buffer("running_mean", make_buffer({c}, dtype, 0, track))),
      running_var(this->add_buffer("running_var", make_buffer({c}, dtype, 1, track))),
      num_batches_tracked(
          this->add_buffer("num_batches_tracked", make_buffer({}, DType::i64, 0, track))) {
  this->set_type(type);
}

BatchNorm::BatchNorm(const char* type, i64 c, const BatchNormLayerOptions& o, int least_axes,
                     int most_axes)
    : ChannelNorm(type, c, o.dtype, o.affine, o.track_running_stats),
      options_(o),
      least_axes_(least_axes),
      most_axes_(most_axes) {
  state_->own = SumOverRanks();
}

Tensor BatchNorm::forward(Tensor x) {
  if (x.ndim() < least_axes_ || x.ndim() > most_axes_)
    throw ShapeError(str("[", state_->type, "] x must have ", least_axes_,
                         least_axes_ == most_axes_ ? std::string() : str(" or ", most_axes_),
                         " axes, got ", x.shape(), at_line()));
  const auto& sum = std::any_cast<const SumOverRanks&>(state_->own);
  if (sum && (is_training() || !running_mean.defined())) return forward_over_ranks(x, sum);
  const wt::BatchNormOptions o{.weight = weight,
                               .bias = bias,
                               .running_mean = running_mean,
                               .running_var = running_var,
                               .training = is_training(),
                               .momentum = options_.momentum,
                               .num_batches_tracked = num_batches_tracked,
                               .eps = options_.eps};
  if (options_.activation == Activation::none) return batch_norm(std::move(x), o);
  return fused_batch_norm(std::move(x), options_.activation, o);
}

InstanceNorm::InstanceNorm(const char* type, i64 c, const InstanceNormLayerOptions& o, int axes)
    : ChannelNorm(type, c, o.dtype, o.affine, o.track_running_stats),
      options_(o),
      channels_(c),
      axes_(axes) {}

// PyTorch counts no batches here: num_batches_tracked stays what it is.
Tensor InstanceNorm::forward(Tensor x) {
  if (x.ndim() != axes_ && x.ndim() != axes_ + 1)
    throw ShapeError(str("[", state_->type, "] x must have ", axes_, " or ", axes_ + 1,
                         " axes, got ", x.shape(), at_line()));
  const bool alone = x.ndim() == axes_;
  if (x.size(alone ? 0 : 1) != channels_)
    throw ShapeError(str("[", state_->type, "] x ", x.shape(), " has ", x.size(alone ? 0 : 1),
                         " channels, needs ", channels_, at_line()));
  if (alone) x = unsqueeze(std::move(x), 0);
  const wt::InstanceNormOptions o{.weight = weight,
                                  .bias = bias,
                                  .running_mean = running_mean,
                                  .running_var = running_var,
                                  .use_input_stats = is_training() || !running_mean.defined(),
                                  .momentum = options_.momentum,
                                  .eps = options_.eps};
  Tensor y = options_.activation == Activation::none
                 ? instance_norm(std::move(x), o)
                 : fused_instance_norm(std::move(x), options_.activation, o);
  return alone ? squeeze(std::move(y), 0) : y;
}

LocalResponseNorm::LocalResponseNorm(i64 size, const LocalResponseNormOptions& o, const CallLine&)
    : size_(at_least_1("LocalResponseNorm", "size", size)), options_(o) {}

// The channels become the height of an image whose width is all axes behind them.
Tensor LocalResponseNorm::forward(Tensor x) {
  if (x.ndim() < 3)
    throw ShapeError(
        str("[LocalResponseNorm] x must have at least 3 axes, got ", x.shape(), at_line()));
  const Shape shape = x.shape();
  if (x.numel() == 0) return x;
  const Tensor squares = reshape(square(x), {shape[0], 1, shape[1], -1});
  const Tensor mean = reshape(
      avg_pool2d(pad(squares, {0, 0, size_ / 2, (size_ - 1) / 2}), {size_, 1}, {.stride = 1}),
      shape);
  return std::move(x) / pow(mean * options_.alpha + options_.k, options_.beta);
}

GroupNorm::GroupNorm(i64 groups, i64 channels, const GroupNormLayerOptions& o, const CallLine&)
    : weight(add("weight", make_constant({at_least_1("GroupNorm", "channels", channels)}, o.dtype,
                                         1, o.affine))),
      bias(add("bias", make_constant({channels}, o.dtype, 0, o.affine))),
      groups_(groups),
      eps_(o.eps),
      activation_(o.activation) {
  if (groups < 1 || channels % groups != 0)
    throw ShapeError(str("[GroupNorm] groups ", groups, " does not divide the ", channels,
                         " channels", at_line()));
}

Tensor GroupNorm::forward(Tensor x) {
  const wt::GroupNormOptions o{.weight = weight, .bias = bias, .eps = eps_};
  if (activation_ == Activation::none) return group_norm(std::move(x), groups_, o);
  return fused_group_norm(std::move(x), groups_, activation_, o);
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& o, const CallLine&)
    : weight(add("weight", make_constant(normalized_shape, o.dtype, 1, o.elementwise_affine))),
      normalized_shape_(normalized_shape),
      eps_(o.eps) {
  if (normalized_shape.empty())
    throw ShapeError(
        str("[RMSNorm] normalized_shape has no axis, at least 1 is needed", at_line()));
}

Tensor RMSNorm::forward(Tensor x) {
  const RmsNormOptions options{.eps = eps_};
  if (weight.defined()) return rms_norm(std::move(x), normalized_shape_, weight, options);
  return rms_norm(std::move(x), normalized_shape_, options);
}

AddNormResult RMSNorm::of_sum(Tensor x, const Tensor& residual) {
  if (!state_->hooks.empty()) return called_with_sum(*this, std::move(x), residual);
  const detail::CallScope scope(*this, Frame{});
  return add_rms_norm(std::move(x), residual, normalized_shape_, {.weight = weight, .eps = eps_});
}

}  // namespace wt::nn
