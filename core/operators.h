// a + b, a - b, a * b, a / b and -a for tensors, numbers and losses in any mixture; a += b and its
// like write into a (core/tensor.h: add_, ...). The operands record the user's line. There is no
// operator== and no operator<: they would have to give a bool; use eq, lt, ... (autograd/ops.h).
#pragma once
#include "warptape/core/in.h"

namespace wt {

WT_API Tensor add(const Operand& a, const Operand& b);
WT_API Tensor sub(const Operand& a, const Operand& b);
WT_API Tensor mul(const Operand& a, const Operand& b);
WT_API Tensor div(const Operand& a, const Operand& b);
WT_API Tensor neg(const In& x);

WT_HOT Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
WT_HOT Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
WT_HOT Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
WT_HOT Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
WT_HOT Tensor operator-(const Operand& x) { return neg(x); }

// Into a tensor, and into a part of one: buf[i] += x.
WT_API Tensor& operator+=(Tensor& a, const Operand& b);
WT_API Tensor& operator-=(Tensor& a, const Operand& b);
WT_API Tensor& operator*=(Tensor& a, const Operand& b);
WT_API Tensor& operator/=(Tensor& a, const Operand& b);
inline void operator+=(Tensor&& a, const Operand& b) { a += b; }
inline void operator-=(Tensor&& a, const Operand& b) { a -= b; }
inline void operator*=(Tensor&& a, const Operand& b) { a *= b; }
inline void operator/=(Tensor&& a, const Operand& b) { a /= b; }

}  // namespace wt
