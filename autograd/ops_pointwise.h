// Elementwise operators: kernels/pointwise.h has the list, formulas and derivatives.
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/pointwise.h"

namespace wt {

// Operands broadcast. Types promote as in PyTorch: 0-d tensors and numbers change the dtype only
// when their category (bool, integer, float) is higher. Integers wrap; bool + is or, bool * is and.
// The storage-only dtypes are refused (DtypeError). Also as a + b, a - b, a * b, a / b, -x.
//
// One operand; integers are converted to the default dtype, but for those marked *:
//   abs* cos erf exp gelu gelu_tanh log neg* reciprocal relu* rsqrt sigmoid sign* silu sin sqrt
//   square* tanh
// Two operands, of which one may be a number; div (of integers too) gives floats:
//   add div maximum minimum mul pow sub
// To bool, without gradient:
//   eq ne lt le gt ge logical_and logical_or    logical_not isfinite isnan
#define WT_DECLARE_UNARY(M, name, Entry) WT_API Tensor name(const In& x);
#define WT_DECLARE_BINARY(M, name, Entry) WT_API Tensor name(const Operand& a, const Operand& b);
WT_POINTWISE_UNARY(WT_DECLARE_UNARY, )
WT_POINTWISE_UNARY_PLAIN(WT_DECLARE_UNARY, )
WT_POINTWISE_BINARY(WT_DECLARE_BINARY, )
WT_POINTWISE_BINARY_PLAIN(WT_DECLARE_BINARY, )
#undef WT_DECLARE_UNARY
#undef WT_DECLARE_BINARY
// min(max(x, lo), hi). An integer tensor with a floating bound becomes the default dtype.
WT_API Tensor clamp(const In& x, Scalar lo, Scalar hi);
// c ? a : b; c is bool, a and b promote. Throws DtypeError for another c.
WT_API Tensor where(const In& c, const Operand& a, const Operand& b);

}  // namespace wt
