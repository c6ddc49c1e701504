// Convolutions with what comes behind them, in one kernel.
#pragma once
#include "warptape/autograd/ops/conv.h"
#include "warptape/core/activation.h"

namespace wt {

struct FusedConvOptions {
  Tensor bias{};      // [O]
  Tensor residual{};  // the result's shape
  Activation activation = Activation::none;
  ConvOptions conv{};  // stride, padding, dilation, groups
};
// y = f(conv1d(x, weight, bias) + residual), f the activation: a convolution and what follows it in
// a residual network (He et al. 2016, arXiv:1512.03385, figure 2). Shapes, order in memory, dtypes
// and numbers are conv1d's; residual has y's shape and any strides (in y's order it is read as it
// lies). What is added is undefined where there is none. The values are those of conv1d, add and
// the activation, but for roundings between them: on simt and cuda our own kernels make all of it
// before they write. relu saves y for its gradient, the others conv1d(x, weight, bias) + residual.
// Throws ShapeError, DtypeError and UsageError as conv1d does, and ShapeError for a residual of
// another shape.
WT_API Tensor fused_conv1d(const In& x, const In& weight, const FusedConvOptions& options = {});
// fused_conv1d over two axes, as conv2d.
WT_API Tensor fused_conv2d(const In& x, const In& weight, const FusedConvOptions& options = {});
// fused_conv1d over three axes, as conv3d.
WT_API Tensor fused_conv3d(const In& x, const In& weight, const FusedConvOptions& options = {});

}  // namespace wt
