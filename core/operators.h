// a + b, a - b, a * b, a / b, -a, and a & b, a | b, a ^ b, ~a for tensors, numbers and losses in
// any mixture; a += b and its
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
WT_API Tensor bitwise_and(const Operand& a, const Operand& b);
WT_API Tensor bitwise_not(const In& x);
WT_API Tensor bitwise_or(const Operand& a, const Operand& b);
WT_API Tensor bitwise_xor(const Operand& a, const Operand& b);

WT_HOT Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
WT_HOT Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
WT_HOT Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
WT_HOT Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
WT_HOT Tensor operator-(const Operand& x) { return neg(x); }
// Of masks and integers, bit by bit.
WT_HOT Tensor operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
WT_HOT Tensor operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }
WT_HOT Tensor operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b); }
WT_HOT Tensor operator~(const Operand& x) { return bitwise_not(x); }

namespace detail {
// a, into which b is to be written. Throws UsageError where that is a copy that nobody will see:
// x[mask] += 1.
WT_API Tensor& kept(Tensor& a, const Operand& b);
}  // namespace detail
// Into a tensor, and into a part of one: buf[i] += x. Into what tensors as indices picked, a copy,
// write with index_put_().
WT_API Tensor& operator+=(Tensor& a, const Operand& b);
WT_API Tensor& operator-=(Tensor& a, const Operand& b);
WT_API Tensor& operator*=(Tensor& a, const Operand& b);
WT_API Tensor& operator/=(Tensor& a, const Operand& b);
inline void operator+=(Tensor&& a, const Operand& b) { detail::kept(a, b) += b; }
inline void operator-=(Tensor&& a, const Operand& b) { detail::kept(a, b) -= b; }
inline void operator*=(Tensor&& a, const Operand& b) { detail::kept(a, b) *= b; }
inline void operator/=(Tensor&& a, const Operand& b) { detail::kept(a, b) /= b; }

}  // namespace wt
