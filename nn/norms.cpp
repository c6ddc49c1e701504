#include "warptape/nn/norms.h"

#include "warptape/autograd/ops_channel_norm.h"
#include "warptape/autograd/ops_norm.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"

namespace wt::nn {
namespace {

Tensor parameter(bool wanted, const Shape& shape, DType t, double value) {
  if (!wanted) return {};
  const CategoryScope scope(Category::parameter);
  Tensor p = empty(shape, {.dtype = t, .device = mode.default_device});
  init::constant_(p, value);
  return p;
}
Tensor buffer(bool wanted, const Shape& shape, DType t, i64 value) {
  if (!wanted) return {};
  const CategoryScope scope(Category::buffer);
  return full(shape, value, {.dtype = t, .device = mode.default_device});
}
i64 checked_channels(const char* layer, i64 channels) {
  if (channels < 1)
    throw ShapeError(str("[", layer, "] channels must be at least 1, got ", channels));
  return channels;
}

}  // namespace

BatchNorm::BatchNorm(const char* type, i64 c, const BatchNormOptions& o, int least_axes,
                     int most_axes)
    : weight(add("weight", parameter(o.affine, {checked_channels(type, c)}, o.dtype, 1))),
      bias(add("bias", parameter(o.affine, {c}, o.dtype, 0))),
      running_mean(add_buffer("running_mean", buffer(o.track_running_stats, {c}, o.dtype, 0))),
      running_var(add_buffer("running_var", buffer(o.track_running_stats, {c}, o.dtype, 1))),
      num_batches_tracked(
          add_buffer("num_batches_tracked", buffer(o.track_running_stats, {}, DType::i64, 0))),
      options_(o),
      least_axes_(least_axes),
      most_axes_(most_axes) {
  set_type(type);
}

Tensor BatchNorm::forward(Tensor x) {
  if (x.ndim() < least_axes_ || x.ndim() > most_axes_)
    throw ShapeError(str("[", state_->type, "] x must have ", least_axes_,
                         least_axes_ == most_axes_ ? std::string() : str(" or ", most_axes_),
                         " axes, got ", x.shape()));
  return batch_norm(std::move(x), {.weight = weight,
                                   .bias = bias,
                                   .running_mean = running_mean,
                                   .running_var = running_var,
                                   .training = is_training(),
                                   .momentum = options_.momentum,
                                   .num_batches_tracked = num_batches_tracked,
                                   .eps = options_.eps});
}

GroupNorm::GroupNorm(i64 groups, i64 channels, const GroupNormOptions& o)
    : weight(add("weight",
                 parameter(o.affine, {checked_channels("GroupNorm", channels)}, o.dtype, 1))),
      bias(add("bias", parameter(o.affine, {channels}, o.dtype, 0))),
      groups_(groups),
      eps_(o.eps) {
  set_type("GroupNorm");
  if (groups < 1 || channels % groups != 0)
    throw ShapeError(
        str("[GroupNorm] groups ", groups, " does not divide the ", channels, " channels"));
}

Tensor GroupNorm::forward(Tensor x) {
  return group_norm(std::move(x), groups_, {.weight = weight, .bias = bias, .eps = eps_});
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& o)
    : weight(add("weight", parameter(o.elementwise_affine, normalized_shape, o.dtype, 1))),
      normalized_shape_(normalized_shape),
      eps_(o.eps) {
  set_type("RMSNorm");
  if (normalized_shape.empty())
    throw ShapeError("[RMSNorm] normalized_shape has no axis, at least 1 is needed");
}

Tensor RMSNorm::forward(Tensor x) {
  const RmsNormOptions options{.eps = eps_};
  if (weight.defined()) return rms_norm(std::move(x), normalized_shape_, weight, options);
  return rms_norm(std::move(x), normalized_shape_, options);
}

}  // namespace wt::nn
