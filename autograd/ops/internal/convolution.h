// What ops/conv.cpp has for ops/fused_conv.cpp. Internal.
#pragma once
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/kernels/conv.h"

namespace wt::detail {

// What a node keeps: the numbers of the spatial axes. `padding` is what lies before the first
// element; sizes say what lies behind the last.
struct ConvSteps {
  i32 stride[3], padding[3], dilation[3];
  i32 groups;
  i32 axes;
};
enum ConvOperand : int { kConvX, kConvWeight, kConvBias };

// Checks x, the weight and, if there is one, the bias, which come in this order; the numbers into
// `c`. The result's shape.
Shape check_conv(const OpScope& s, int axes, const ConvOptions& o, bool bias, ConvSteps& c);
// Of x [.., C, in...], y [.., O, out...] and a weight of this shape.
ConvShape conv_shape(const Shape& x, const Shape& y, const Shape& w, const ConvSteps& c, DType t);
// Operand i as the kernels read a bias: without gaps. Undefined where i is below 0.
Tensor packed_bias(const OpScope& s, int i);

// The convolution as a recorded operator, for backwards: without checks and bias. `out`: y's
// spatial sizes.
Tensor conv_to(const In& x, const In& w, const ConvSteps& c, const Shape& out);
// What takes part of the gradients of x, the weight and, if there is one, the bias, from that of
// their sum; x and the weight are in slots 0 and 1.
void put_conv_gradients(Backward& g, const ConvSteps& c, const Tensor& dy, bool bias);

}  // namespace wt::detail
