// What convolution and pooling share: the checks of numbers along spatial axes, and results in the
// order of an operand. Internal to autograd/ops/conv.cpp and ops/pool.cpp.
#pragma once
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/per_axis.h"
#include "warptape/kernels/conv.h"

namespace wt::detail {

struct WindowCheck {
  const OpScope& s;
  int axes;

  // Operand 0: a dtype that computes, and a rank with or without a batch.
  void input(const char* name) const;
  // One number an axis, at least `least`, into `to`. Throws UsageError.
  void numbers(const char* name, const PerAxis& from, i64 least, i32* to) const;
  // dilation * (kernel - 1) + 1
  i64 reach(i64 kernel, i64 dilation) const;
  // How many windows that span `reach` fit into an axis with `padding` on both sides; with
  // `ceil_mode` one more that begins inside the axis or its left padding. Throws ShapeError.
  i64 positions(int axis, i64 size, i64 reach, i64 stride, i64 padding, bool ceil_mode) const;
};

// A tensor with `axes` spatial axes, behind channels and perhaps a batch, as kernels get it.
ConvTensor spatial_tensor(const TensorImpl* p, int axes);
// Its sizes.
inline Shape spatial(const Shape& s, int axes) { return Shape(s.data() + s.ndim() - axes, axes); }
// [.., channels, sizes...] with the batch of `like`.
Shape with_channels(const Shape& like, int axes, i64 channels, const Shape& sizes);
// The channels of operand i lie side by side, its pixels after each other: NHWC and its kin.
bool channels_last(const Geometry& g, int axes);
// A new tensor of operand i's dtype with its order of channels and space.
Result result_in_order_of(const OpScope& s, int i, const Shape& shape, int axes);
Result result_in_order_of(const OpScope& s, int i, const Shape& shape, int axes, DType t);

// t, an incoming gradient, or a copy where its elements repeat or have gaps, which no fast kernel
// takes: that of a sum is one element, expanded. In the order of `like`, which may be undefined.
Tensor gapless(const Tensor& t, const Tensor& like, int axes);

}  // namespace wt::detail
