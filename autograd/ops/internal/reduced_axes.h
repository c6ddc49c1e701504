// Axes of a reduction, a bit each, for the operators that reduce. Internal.
#pragma once
#include <vector>

#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"

namespace wt::detail {

inline i64 reduced_numel(const Geometry& g, u32 mask) {
  i64 n = 1;
  for (int i = 0; i < g.ndim; ++i)
    if (mask >> i & 1) n *= g.shape[i];
  return n;
}
inline Dims axes_of(u32 mask) {
  std::vector<int> axes;
  for (int i = 0; i < kMaxDims; ++i)
    if (mask >> i & 1) axes.push_back(i);
  return axes;
}

// t lacks the axes of `mask` or has them with size 1: made to broadcast to `shape`.
inline Tensor with_axes(Tensor t, const Shape& shape, u32 mask) {
  const int left = t.ndim();
  // Missing leading axes are broadcasting's own business.
  if (left == shape.ndim() || mask == (1u << (shape.ndim() - left)) - 1) return t;
  return reshape(std::move(t), reduced_shape(shape, mask, true));
}

// x - mean(x) along `axes`, in two steps: beside a large mean its rounding would be most of what is
// left.
inline Tensor centred(const Tensor& x, const Dims& axes) {
  const Tensor near = sub(x, mean(x, axes, {.keep_dim = true}));
  return sub(near, mean(near, axes, {.keep_dim = true}));
}

}  // namespace wt::detail
