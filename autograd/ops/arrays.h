// What NumPy's arrays are arranged with: tiles, rows beside and below each other, differences of
// neighbours.
#pragma once
#include <initializer_list>
#include <span>

#include "warptape/autograd/ops/shape.h"

namespace wt {

// Size-1 axes repeated without copying: expand by NumPy's name.
inline Tensor broadcast_to(const In& x, const Shape& shape) { return expand(x, shape); }
// x repeated repeats[i] times along axis i, whole after whole, counted from the last axis: what
// repeats lacks are ones, what x lacks are new leading axes. A copy, any dtype. Throws ShapeError
// for negative repeats.
WT_API Tensor tile(const In& x, const Shape& repeats);

// The parts side by side: along axis 1, or of a 1-d first one along axis 0; 0-d ones count as [1].
// Dtypes promote. Throws UsageError for no parts, ShapeError for shapes that differ elsewhere.
WT_API Tensor hstack(std::span<const Tensor> parts, Frame at = Frame::here());
WT_API Tensor hstack(std::initializer_list<Tensor> parts, Frame at = Frame::here());
// The parts below each other, along axis 0; 1-d ones count as rows [1, n], 0-d ones as [1, 1].
// Dtypes promote. Throws UsageError for no parts, ShapeError for shapes that differ elsewhere.
WT_API Tensor vstack(std::span<const Tensor> parts, Frame at = Frame::here());
WT_API Tensor vstack(std::initializer_list<Tensor> parts, Frame at = Frame::here());

struct DiffOptions {
  i64 n = 1;  // how often
  i64 dim = -1;
  Tensor prepend{}, append{};  // go before and behind x first; x's shape but along dim
};
// x[i + 1] - x[i] along an axis, which becomes one shorter, n times over; an axis that is too short
// for that is empty in the end. Of bool the elements that differ from the one before. With n = 0 a
// copy. Throws ShapeError for 0-d tensors and shapes that do not fit, UsageError for a negative n.
WT_API Tensor diff(const In& x, const DiffOptions& options = {});

}  // namespace wt
