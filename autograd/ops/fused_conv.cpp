#include "warptape/autograd/ops/fused_conv.h"

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/convolution.h"
#include "warptape/autograd/ops/internal/fused.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/window.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo fused_conv1d{.name = "fused_conv1d", .autocast = Autocast::lower};
constexpr OpInfo fused_conv2d{.name = "fused_conv2d", .autocast = Autocast::lower};
constexpr OpInfo fused_conv3d{.name = "fused_conv3d", .autocast = Autocast::lower};
}  // namespace info

namespace {

struct FusedConv {
  detail::ConvSteps steps;
  Activation activation;
  i8 bias = -1, residual = -1;
};

using detail::kConvWeight, detail::kConvX;

// conv(x, weight, bias) + residual by operators. `y`: its shape.
Tensor recorded_sum(Backward& g, const FusedConv& a, const Shape& y) {
  const int axes = a.steps.axes;
  Tensor z =
      detail::conv_to(g.saved(kSavedX), g.saved(kSavedWeight), a.steps, detail::spatial(y, axes));
  if (a.bias >= 0) {
    Shape channels{y[y.ndim() - axes - 1]};
    for (int d = 0; d < axes; ++d) channels.push_back(1);
    z = z + reshape(g.saved(kSavedBias), channels);
  }
  if (a.residual >= 0) z = z + g.saved(kSavedResidual);
  return z;
}

void fused_conv_backward(Backward& g) {
  const auto a = g.attribute<FusedConv>();
  const Activation f = a.activation;
  const Tensor none;
  Tensor dz;
  if (g.recording() && is_told_from_sum(f)) {
    dz = recorded_gradient(f, g.grad(), recorded_sum(g, a, g.grad().shape()), none);
  } else {
    const Tensor& told = f == Activation::none ? none : g.saved(kSavedTold);
    dz = g.recording() ? recorded_gradient(f, g.grad(), told, told)
                       : activation_gradient(g, f, g.grad(), told);
  }
  detail::put_conv_gradients(g, a.steps, dz, a.bias >= 0);
  if (a.residual >= 0 && g.wants(u32(a.residual))) g.put(u32(a.residual), std::move(dz));
}

// The elements of operand i in the order of y, which may take a copy.
const void* data_as(const OpScope& s, int i, const TensorImpl* y, Tensor& copy) {
  if (i < 0) return nullptr;
  const Geometry &from = s.geometry(i), &to = y->geometry;
  bool same = true;
  for (int d = 0; d < to.ndim; ++d) same &= to.shape[d] == 1 || from.strides[d] == to.strides[d];
  if (same || to.numel == 0) return s.impl(i)->data;
  copy = Tensor(new_in_order(y, to.dtype));
  detail::copy_into(copy.impl(), s.impl(i));
  return copy.impl()->data;
}

Tensor fused_conv(const OpInfo& info, int axes, const In& x, const In& weight,
                  const FusedConvOptions& o) {
  const OptionalOperands in({&x, &weight}, {&o.bias, &o.residual});
  FusedConv a{{}, o.activation, in.place[0], in.place[1]};
  OpScope s(info, in.list, in.size);
  const Shape shape = detail::check_conv(s, axes, o.conv, a.bias >= 0, a.steps);
  if (a.residual >= 0 && shape_of(s.geometry(a.residual)) != shape)
    s.fail<ShapeError>(
        str("residual ", shape_of(s.geometry(a.residual)), " \u2260 result ", shape));
  const bool smooth = is_told_from_sum(o.activation);
  Result y = detail::result_in_order_of(s, kConvX, shape, axes);
  Tensor z;
  if (s.recording()) {
    if (smooth) z = Tensor(new_in_order(y.impl(), s.dtype()));
    s.save_input_if(smooth || s.wants(kConvWeight), kConvX);
    s.save_input_if(smooth || s.wants(kConvX), kConvWeight);
    if (smooth)
      s.save_extra(Tensor(alias_of(z.impl())));
    else if (is_told_from_result(o.activation))
      s.save_output();
    else
      s.save_input_if(false, 0);
    s.save_input_if(smooth && a.bias >= 0, a.bias);
    s.save_input_if(smooth && a.residual >= 0, a.residual);
  }
  Tensor copy;
  const Tensor bias = detail::packed_bias(s, a.bias);
  const void* const residual = data_as(s, a.residual, y.impl(), copy);
  s.record(fused_conv_backward);
  s.set_attribute(a);
  ConvForwardArgs args{detail::conv_shape(shape_of(s.geometry(kConvX)), shape,
                                          shape_of(s.geometry(kConvWeight)), a.steps, s.dtype()),
                       detail::spatial_tensor(y.impl(), axes),
                       detail::spatial_tensor(s.impl(kConvX), axes),
                       detail::spatial_tensor(s.impl(kConvWeight), axes),
                       bias.defined() ? bias.impl()->data : nullptr};
  args.epilogue = {.activation = o.activation,
                   .residual = residual,
                   .aux = z.defined() ? z.impl()->data : nullptr};
  run(args, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor fused_conv1d(const In& x, const In& weight, const FusedConvOptions& options) {
  return fused_conv(info::fused_conv1d, 1, x, weight, options);
}
Tensor fused_conv2d(const In& x, const In& weight, const FusedConvOptions& options) {
  return fused_conv(info::fused_conv2d, 2, x, weight, options);
}
Tensor fused_conv3d(const In& x, const In& weight, const FusedConvOptions& options) {
  return fused_conv(info::fused_conv3d, 3, x, weight, options);
}

namespace detail {
OpInfos fused_conv_ops() {
  static constexpr const OpInfo* kOps[] = {&info::fused_conv1d, &info::fused_conv2d,
                                           &info::fused_conv3d};
  return kOps;
}
}  // namespace detail

}  // namespace wt
