// Shapes of results, refused in the operator's name. Internal.
#pragma once
#include "warptape/autograd/op_scope.h"

namespace wt {

// The shape to which both broadcast. Throws ShapeError.
WT_COLD Shape broadcast_operands(const OpScope& s, const Shape& a, const Shape& b);

// Throws ShapeError where the elements of a result pass 64 bits. No size is negative.
inline void check_numel(const OpScope& s, const Shape& shape) {
  i64 n = 1;
  for (const i64 size : shape)
    if (size != 0 && __builtin_mul_overflow(n, size, &n)) [[unlikely]]
      s.fail<ShapeError>(str("the result would be ", shape, ", whose elements overflow 64 bits"));
}

}  // namespace wt
