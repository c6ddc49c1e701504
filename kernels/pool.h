// Pooling over one to three spatial axes.
//
// Element q of the output stands for a window of the input: along every axis the positions
// q * stride - padding + t * dilation for taps t in [0, kernel) that lie inside; with `adaptive`
// the positions from q * in / out rounded down to (q + 1) * in / out rounded up, tap 0 being the
// first.
//
// Shapes: x [batch, channels, in...], y [batch, channels, out...], always with three spatial axes:
// leading ones of size 1 stand for those that are missing. Any strides; x, y and their gradients
// have one dtype: f64 f32 f16 bf16. Outputs do not overlap operands. Sums have a fixed order.
#pragma once
#include "warptape/kernels/conv.h"

namespace wt {

struct PoolShape {
  i64 batch = 0, channels = 0;
  i64 in[3], out[3];
  i64 kernel[3], stride[3], padding[3], dilation[3];  // adaptive: kernel bounds the windows' length
  DType dtype = DType::f32;
  bool adaptive = false;
  // Of averages: what a window is divided by. With count_padding its positions up to `padding`
  // elements behind the input count too; divisor other than 0 takes their place.
  bool count_padding = true;
  i64 divisor = 0;
  // How `out` came about, for autograd/onnx, which writes the operator down; kernels read `out`.
  bool ceil_mode = false;

  i64 x_numel() const { return batch * channels * in[0] * in[1] * in[2]; }
  i64 y_numel() const { return batch * channels * out[0] * out[1] * out[2]; }
  i64 taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// y = the window's largest element, the first of them; NaN where it has one, then the last of them;
// -inf where nothing lies inside. taps (u8 where the shape's taps() <= 256, else i32): the tap of
// that element, counted in C order over `kernel`; indices (i64): its position in C order over `in`
// (-1 where nothing lies inside). Either may be absent. (The order is PyTorch's.)
struct MaxPoolForwardArgs {
  PoolShape shape;
  ConvTensor y, taps, indices, x;
  i64 bytes() const { return item_size(shape.dtype) * (shape.x_numel() + shape.y_numel()); }
  i64 flops() const { return shape.y_numel() * shape.taps(); }
};
WT_CONTRACT(max_pool_forward, MaxPoolForwardArgs);

// gx = the sum of gy over the windows whose tap points here.
struct MaxPoolBackwardArgs {
  PoolShape shape;
  ConvTensor gx, gy, taps;
  i64 bytes() const { return item_size(shape.dtype) * (shape.x_numel() + shape.y_numel()); }
  i64 flops() const { return shape.y_numel(); }
};
WT_CONTRACT(max_pool_backward, MaxPoolBackwardArgs);

// y = the element of x that the tap points to: the derivative of max_pool_backward, as that is its.
struct MaxPoolGatherArgs {
  PoolShape shape;
  ConvTensor y, x, taps;
  i64 bytes() const { return item_size(shape.dtype) * 2 * shape.y_numel(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(max_pool_gather, MaxPoolGatherArgs);

// y = the sum of the window / what the shape says.
struct AvgPoolForwardArgs {
  PoolShape shape;
  ConvTensor y, x;
  i64 bytes() const { return item_size(shape.dtype) * (shape.x_numel() + shape.y_numel()); }
  i64 flops() const { return shape.y_numel() * shape.taps(); }
};
WT_CONTRACT(avg_pool_forward, AvgPoolForwardArgs);

// gx = the sum over its windows of gy / what the shape says. Each is the other's derivative.
struct AvgPoolBackwardArgs {
  PoolShape shape;
  ConvTensor gx, gy;
  i64 bytes() const { return item_size(shape.dtype) * (shape.x_numel() + shape.y_numel()); }
  i64 flops() const { return shape.y_numel() * shape.taps(); }
};
WT_CONTRACT(avg_pool_backward, AvgPoolBackwardArgs);

}  // namespace wt
