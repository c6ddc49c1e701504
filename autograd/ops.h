// Every differentiable function: the library's table of contents.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// --- arithmetic (operands broadcast; numbers are allowed on either side) -------------------------
WT_API Tensor add(const Operand& a, const Operand& b);
WT_API Tensor mul(const Operand& a, const Operand& b);

// --- activations ---------------------------------------------------------------------------------
WT_API Tensor relu(const In& x);

// --- conversions ---------------------------------------------------------------------------------
// The same values as another dtype; the same tensor when it already is.
WT_API Tensor to_dtype(const In& x, DType t);

namespace detail {
// One more reference to p, for making a handle of it.
inline TensorImpl* retained(TensorImpl* p) {
  retain(p);
  return p;
}
}  // namespace detail

}  // namespace wt
