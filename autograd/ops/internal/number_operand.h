// Numbers beside tensors, and 0-d tensors, which stand for one. Internal.
#pragma once
#include <optional>

#include "warptape/autograd/op_scope.h"

namespace wt::detail {

// Throws DtypeError, "[op] u8 cannot hold 300", where an element of operand 0 cannot be v
// (core/numbers/scalar_as.h says what that means).
void check_holds(const OpScope& s, Scalar v);

// v as elements of dtype t are compared with it: rounded to one of them, so that tensor({0.1}, f16)
// equals 0.1. A number that would become infinite stays what it is.
Scalar compared(DType t, Scalar v);

// A 0-d tensor changes no dtype within its category, and cast to the 16 bits of the others it could
// be infinite or 0 where the result is neither. There all operands are converted to f32, or to f64
// if one of them is f64, and the dtype comes back that the result is to be converted to. Nothing
// where no such operand is among them, one is undefined or for storage only, or autocast is about
// to make f32 of all.
std::optional<DType> widen_beside(const OpInfo& info, const In* const* in, int n);

}  // namespace wt::detail
