// Shapes of results, refused in the operator's name. Internal.
#pragma once
#include "warptape/autograd/op_scope.h"

namespace wt {

// The shape to which both broadcast. Throws ShapeError.
WT_COLD Shape broadcast_operands(const OpScope& s, const Shape& a, const Shape& b);

// Throws ShapeError where the elements of a result pass 64 bits. No size is negative.
inline void check_numel(const OpScope& s, const Shape& shape) {
  i64 extent;
  if (!extent_fits(shape.data(), shape.ndim(), extent)) [[unlikely]]
    s.fail<ShapeError>(str("the result would be ", shape, ", whose elements overflow 64 bits"));
}

// The same of a shape that the user gives: negative sizes are refused too.
inline void check_shape(const OpScope& s, const Shape& shape) {
  for (const i64 size : shape)
    if (size < 0) s.fail<ShapeError>(str("a negative size in shape ", shape));
  check_numel(s, shape);
}

}  // namespace wt
