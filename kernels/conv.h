// Convolution over one to three spatial axes: three contracts, each of whose derivatives is the
// other two.
//
//   y[n, o, q]  = bias[o] + sum over c, k of x[n, c, p] * w[o, c, k]      conv_forward
//   x[n, c, p]  = bias[c] + sum over o, k of y[n, o, q] * w[o, c, k]      conv_backward_input
//   w[o, c, k]  = sum over n, q of y[n, o, q] * x[n, c, p]                conv_backward_weight
//
// with p = q * stride - padding + k * dilation on every spatial axis, wherever p lies inside x, and
// o and c of one group. (The name is the field's; nothing is flipped, so it is a correlation.) The
// second is the transposed convolution, the gradient of the first with respect to x; the third is
// the gradient with respect to w. Where p lies outside, variants leave the product out or make it
// with a zero: a w (in the third: a y) that is not finite may then give NaN. Winograd's transforms
// (cpu, cuDNN) make NaN of all results whose 4 x 4 pixels hold one that is not finite.
//
// Shapes: x [batch, in_channels, in...], y [batch, out_channels, out...], w [out_channels,
// in_channels / groups, kernel...]. There are always three spatial axes here: leading ones of size
// 1 stand for those that are missing. `padding` is what lies before the first element; what lies
// behind the last follows from `out`. One dtype: f64 f32 f16 bf16 (16-bit types are summed in f32).
// Any strides, outputs do not overlap operands. Nothing is saved. Sums have an order that depends
// on the shapes alone.
//
// The first may have the epilogue of a matrix product (kernels/matmul.h), z = its sum with the bias
// (+ residual): y = f(z), aux = z, or y = z * f'(aux). residual and aux have y's shape and strides.
#pragma once
#include "warptape/kernels/matmul.h"

namespace wt {

struct ConvShape {
  i64 batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  i64 in[3], out[3], kernel[3];
  i64 stride[3], padding[3], dilation[3];
  DType dtype = DType::f32;

  WT_HD WT_HOT i64 in_group() const { return in_channels / groups; }
  WT_HD WT_HOT i64 out_group() const { return out_channels / groups; }
  i64 x_numel() const { return batch * in_channels * in[0] * in[1] * in[2]; }
  i64 y_numel() const { return batch * out_channels * out[0] * out[1] * out[2]; }
  i64 w_numel() const { return out_channels * in_group() * kernel[0] * kernel[1] * kernel[2]; }
  // A multiplication and an addition count as two.
  double flops() const {
    return 2.0 * double(y_numel()) * double(in_group()) * double(kernel[0] * kernel[1] * kernel[2]);
  }
};

// A tensor's first element and its strides in elements. Of a weight `batch` steps from an output
// channel to the next, `channel` from an input channel to the next.
struct ConvTensor {
  void* data = nullptr;
  i64 batch = 0, channel = 0;
  i64 at[3] = {0, 0, 0};
};

// The slices of vmap() as more images (kernels/dispatch/run_slices.h): true where images of all
// tensors follow one another, slice after slice, or where each slice is one image.
template <class Slices, class... Tensors>
bool fold_slices(const Slices& s, ConvShape& shape, Tensors&... tensors) {
  const i64 item = item_size(shape.dtype);
  const auto follows = [&](const ConvTensor& t) {
    return shape.batch == 1 || s.step(t.data, 0) == shape.batch * t.batch * item;
  };
  if (s.levels() != 1 || !(... && follows(tensors))) return false;
  if (shape.batch == 1) (..., (tensors.batch = s.step(tensors.data, 0) / item));
  shape.batch *= s.count(0);
  return true;
}

// bias: [out_channels], contiguous, or null.
struct ConvForwardArgs {
  ConvShape shape;
  ConvTensor y, x, w;
  const void* bias = nullptr;
  MatmulEpilogue epilogue{};
  template <class Slices>
  bool add_slices(const Slices& s) {
    return !epilogue.residual && !epilogue.aux && !s.step(w.data, 0) && !s.step(bias, 0) &&
           fold_slices(s, shape, y, x);
  }
  i64 bytes() const {
    const i64 of_y = 1 + (epilogue.residual != nullptr) + (epilogue.aux != nullptr);
    return item_size(shape.dtype) * (shape.x_numel() + of_y * shape.y_numel() + shape.w_numel() +
                                     (bias ? shape.out_channels : 0));
  }
  double flops() const { return shape.flops(); }
};
WT_CONTRACT(conv_forward, ConvForwardArgs);

// Writes x. bias: [in_channels], contiguous, or null.
struct ConvBackwardInputArgs {
  ConvShape shape;
  ConvTensor x, y, w;
  const void* bias = nullptr;
  template <class Slices>
  bool add_slices(const Slices& s) {
    return !s.step(w.data, 0) && !s.step(bias, 0) && fold_slices(s, shape, x, y);
  }
  i64 bytes() const {
    return item_size(shape.dtype) *
           (shape.x_numel() + shape.y_numel() + shape.w_numel() + (bias ? shape.in_channels : 0));
  }
  double flops() const { return shape.flops(); }
};
WT_CONTRACT(conv_backward_input, ConvBackwardInputArgs);

// Writes w, and the sums of y over batch and space into y_sum [out_channels], contiguous, unless
// that is null: the gradient of the forward's bias.
struct ConvBackwardWeightArgs {
  ConvShape shape;
  ConvTensor w, y, x;
  void* y_sum = nullptr;
  bool accumulate = false;        // add to what w holds; else its old contents are never read
  bool accumulate_y_sum = false;  // the same for y_sum
  i64 bytes() const {
    return item_size(shape.dtype) *
           (shape.x_numel() + shape.y_numel() + shape.w_numel() * (accumulate ? 2 : 1) +
            (y_sum ? shape.out_channels : 0));
  }
  double flops() const { return shape.flops(); }
};
WT_CONTRACT(conv_backward_weight, ConvBackwardWeightArgs);

}  // namespace wt
