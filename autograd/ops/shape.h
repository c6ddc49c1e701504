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
// Axes a and b change places. Throws ShapeError for an axis that x has not.
WT_API Tensor transpose(const In& x, i64 a, i64 b);
// Axis i of the result is axis order[i] of x.
WT_API Tensor permute(const In& x, const Dims& order);
// Size-1 axes repeated without copying (stride 0); -1 keeps a size; new leading axes are allowed.
WT_API Tensor expand(const In& x, const Shape& shape);
// Without the axes of size 1: all of them, or `axis` if its size is 1.
WT_API Tensor squeeze(const In& x);
WT_API Tensor squeeze(const In& x, i64 axis);
// A new axis of size 1 before `axis` (negative counts from the end of the result: -1 is the last).
WT_API Tensor unsqueeze(const In& x, i64 axis);
// x[..., index, ...] of one axis, which disappears. Throws IndexError.
WT_API Tensor select(const In& x, i64 axis, i64 index);
// The elements begin, begin + step, ... of one axis, which stays, up to but not end: as x[begin :
// end : step] in Python, so negative ends count from the end of the axis, and what is beyond it is
// cut off. Throws ShapeError unless step >= 1, IndexError for a 0-d tensor.
WT_API Tensor slice(const In& x, i64 axis, Slice range);
// Pieces of `size` along an axis (the last may be smaller), as views.
WT_API std::vector<Tensor> split(const In& x, i64 size, i64 axis = 0);
// Pieces of these sizes, one after the other, as views; a list of one number is a size. Throws
// ShapeError unless the sizes are not negative and add up to the axis.
WT_API std::vector<Tensor> split(const In& x, const std::vector<i64>& sizes, i64 axis = 0);
// The same elements without gradient.
WT_API Tensor detach(const In& x);

// --- copies ---
// Itself when it already has the format, else a copy.
WT_API Tensor contiguous(const In& x, MemoryFormat format = MemoryFormat::contiguous);
// A dense copy in memory of its own: contiguous, or channels_last where x is that.
WT_API Tensor clone(const In& x);
// The parts one after the other along an axis, in which alone they may differ. Dtypes promote.
// Throws UsageError for no parts, ShapeError for other shapes and for 0-d tensors.
WT_API Tensor cat(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
WT_API Tensor cat(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here());
// The parts, all of one shape, side by side along a new axis. Dtypes promote. Throws UsageError for
// no parts, ShapeError when shapes differ.
WT_API Tensor stack(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
WT_API Tensor stack(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here());
// The same values as another dtype, in the same order in memory, itself when it is that already.
// The gradient comes back in the original's dtype; of integers there is none.
WT_API Tensor to_dtype(const In& x, DType t);
// The same values on another device, itself when it is there already. The gradient comes back on
// the original's device.
WT_API Tensor to_device(const In& x, Device d);
// Zeros of `shape` with x written at range of an axis: the gradient of slice.
WT_API Tensor slice_backward(const In& x, const Shape& shape, i64 axis, Slice range);

}  // namespace wt
