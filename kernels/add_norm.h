// Residual and normalisation in one pass: x + residual, and the layer norm or root mean square norm
// of it. kernels/layer_norm.h and rms_norm.h have the formulas and what an optional operand means.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// sum = x + residual, rounded to its dtype; then y and stats as layer_norm_forward makes them of
// that sum. x, residual, sum, y: one shape and dtype, any strides. sum may be x or residual, y none
// of the others. weight, bias, stats as there; the gradients of weight and bias are made by
// layer_norm_backward_params from the sum.
struct AddLayerNormForwardArgs {
  View y, sum, stats;
  View x, residual, weight, bias;
  double eps;
  i64 bytes() const {
    return x.bytes() + residual.bytes() + sum.bytes() + y.bytes() + (stats ? stats.bytes() : 0) +
           (weight ? weight.bytes() : 0) + (bias ? bias.bytes() : 0);
  }
  i64 flops() const { return 9 * x.numel(); }
};
WT_CONTRACT(add_layer_norm_forward, AddLayerNormForwardArgs);

// gx as layer_norm_backward_input makes it of gy, plus gsum: the gradient of x and of residual
// where gsum is that of the sum. x: the sum. gx, gy, gsum, x: one shape and dtype, any strides. gx
// may be gy.
struct AddLayerNormBackwardInputArgs {
  View gx;
  View gy, gsum, x, stats, weight;
  i64 bytes() const {
    return gx.bytes() + gy.bytes() + gsum.bytes() + x.bytes() + stats.bytes() +
           (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 13 * gx.numel(); }
};
WT_CONTRACT(add_layer_norm_backward_input, AddLayerNormBackwardInputArgs);

// The same with the root mean square norm.
struct AddRmsNormForwardArgs {
  View y, sum, stats;
  View x, residual, weight;
  double eps;
  i64 bytes() const {
    return x.bytes() + residual.bytes() + sum.bytes() + y.bytes() + (stats ? stats.bytes() : 0) +
           (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 5 * x.numel(); }
};
WT_CONTRACT(add_rms_norm_forward, AddRmsNormForwardArgs);

struct AddRmsNormBackwardInputArgs {
  View gx;
  View gy, gsum, x, stats, weight;
  i64 bytes() const {
    return gx.bytes() + gy.bytes() + gsum.bytes() + x.bytes() + stats.bytes() +
           (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 7 * gx.numel(); }
};
WT_CONTRACT(add_rms_norm_backward_input, AddRmsNormBackwardInputArgs);

}  // namespace wt
