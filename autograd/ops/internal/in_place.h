// What operators that write their first operand check beside OpScope::begin_in_place(). Internal.
#pragma once
#include "warptape/autograd/op_scope.h"

namespace wt::detail {

// Elements that share memory (expand) cannot be written one by one. Throws InplaceError.
void check_writable(const OpScope& s);
// `other` where it lies, or a copy when writing x would change elements of it that are still to be
// read.
Tensor readable_beside(const Tensor& x, const Tensor& other, Frame at);
// Writes y, of x's shape and dtype, into x, which then has y's gradient: a recorded write whose
// result was computed beside x.
void assign(const OpInfo& op, Tensor& x, const Tensor& y, Frame at);

}  // namespace wt::detail
