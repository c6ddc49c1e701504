// What the losses check, and what they add up in. Internal.
#pragma once
#include <cmath>

#include "warptape/autograd/loss.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/mode.h"

namespace wt {

// Of a loss's sum and weight: sums of 16-bit values are kept in f32.
inline DType loss_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// Operands a and b have one shape. The names are those of the user's arguments.
inline void require_one_shape(const OpScope& s, const char* a_name, const char* b_name, int a = 0,
                              int b = 1) {
  if (same_shape(s.geometry(a), s.geometry(b))) return;
  s.fail<ShapeError>(
      str(a_name, " and ", b_name, " must have one shape: ", shape_of(s.geometry(a)), " and ",
          shape_of(s.geometry(b))),
      ".reshape() or .expand() on one of them: broadcasting here is mostly a mistake");
}

// Operand i in the dtype that the loss adds up in.
inline Tensor widened(const OpScope& s, int i) {
  return to_dtype(Tensor(detail::retained(s.impl(i))), loss_dtype(s.dtype(i)));
}

inline Tensor at_least(const Tensor& x, double least) { return clamp(x, least, HUGE_VAL); }

// 1 minus a tensor.
inline Tensor complement(const Tensor& x) { return sub(1.0, x); }

// `x` where `keep`, else 0 without a gradient, whatever x is there.
inline Tensor where_or_zero(const Tensor& keep, const Tensor& x) { return where(keep, x, 0.0); }

// w x, and 0 where w is 0, whatever x is there: what has no weight is not read, forward or
// backward. A weight that has a gradient of its own gets x for it, where that is finite.
inline Tensor weighted_or_zero(const Tensor& w, const Tensor& x) {
  Tensor counts = ne(w, 0.0);
  if (mode.grad && w.requires_grad()) counts = logical_or(counts, isfinite(x));
  return mul(w, where_or_zero(counts, x));
}

}  // namespace wt
