// Views, and the copies that go with them.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "warptape/core/in.h"

namespace wt {

// --- views (no copy) ---
// The same elements under another shape; one size may be -1. Throws ShapeError when the strides do
// not allow it (use reshape).
WT_API Tensor view(const In& x, const Shape& shape);
// view where possible, else a contiguous copy.
WT_API Tensor reshape(const In& x, const Shape& shape);
// Axes first..last merged into one, in logical order.
WT_API Tensor flatten(const In& x, i64 first = 0, i64 last = -1);
WT_API Tensor transpose(const In& x, i64 a, i64 b);
// Axis i of the result is axis order[i] of x.
WT_API Tensor permute(const In& x, const Dims& order);
// Size-1 axes repeated without copying (stride 0); -1 keeps a size; new leading axes are allowed.
WT_API Tensor expand(const In& x, const Shape& shape);
WT_API Tensor squeeze(const In& x);
WT_API Tensor squeeze(const In& x, i64 axis);
WT_API Tensor unsqueeze(const In& x, i64 axis);
// x[..., index, ...] of one axis, which disappears. Throws IndexError.
WT_API Tensor select(const In& x, i64 axis, i64 index);
WT_API Tensor slice(const In& x, i64 axis, Slice range);
// Pieces of `size` along an axis (the last may be smaller), as views.
WT_API std::vector<Tensor> split(const In& x, i64 size, i64 axis = 0);
// The same elements without gradient.
WT_API Tensor detach(const In& x);

// --- copies ---
// Itself when it already has the format, else a copy.
WT_API Tensor contiguous(const In& x, MemoryFormat format = MemoryFormat::contiguous);
WT_API Tensor clone(const In& x);
WT_API Tensor cat(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
WT_API Tensor stack(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
inline Tensor cat(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here()) {
  return cat(std::span(parts.begin(), parts.size()), axis, at);
}
inline Tensor stack(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here()) {
  return stack(std::span(parts.begin(), parts.size()), axis, at);
}
// The same values as another dtype or on another device; itself when nothing changes. The gradient
// comes back as the original's dtype and device.
WT_API Tensor to_dtype(const In& x, DType t);
WT_API Tensor to_device(const In& x, Device d);
// Zeros of `shape` with x written at range of an axis: the gradient of slice.
WT_API Tensor slice_backward(const In& x, const Shape& shape, i64 axis, Slice range);

}  // namespace wt
