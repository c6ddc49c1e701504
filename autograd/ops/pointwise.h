// Elementwise operators: kernels/pointwise_list.h has the list, pointwise_formulas.h and
// pointwise_activations.h have formulas and derivatives.
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/pointwise_list.h"

namespace wt {

// Operands broadcast. Types promote as in PyTorch: 0-d tensors and numbers change the dtype only
// when their category (bool, integer, float) is higher. Integers wrap; bool + is or, bool * is and.
// The storage-only dtypes are refused (DtypeError). Also as a + b, a - b, a * b, a / b, -x.
//
// One operand; integers are converted to the default dtype, but for those marked *:
//   abs* ceil* cos erf exp expm1 floor* gelu gelu_tanh hardsigmoid hardswish log log1p mish neg*
//   reciprocal relu* round* rsqrt sigmoid sign* silu sin sqrt square* tan tanh trunc*
// (round: halves go to the even neighbour)
// Two operands, of which one may be a number; div and atan2 (of integers too) give floats:
//   add atan2 div maximum minimum mul pow sub
// To bool, without gradient:
//   eq ne lt le gt ge logical_and logical_or    logical_not isfinite isinf isnan
//
// The activations clamp elu gelu hardsigmoid hardswish leaky_relu mish relu sigmoid silu softplus
// tanh, and add and mul, have a form in place: x.relu_(), of floats (relu_ and clamp_ of integers).
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
// x where x > 0, else slope * x (Maas et al. 2013). Integers become the default dtype. In place
// slope must be at least 0 (UsageError).
WT_API Tensor leaky_relu(const In& x, double slope = 0.01);
// x where x > 0, else alpha * (e^x - 1) (Clevert et al. 2015, arXiv:1511.07289). In place alpha
// must be at least 0 (UsageError).
WT_API Tensor elu(const In& x, double alpha = 1);
// log(1 + e^(beta x)) / beta; x itself where beta * x > threshold. Throws UsageError unless
// beta > 0.
WT_API Tensor softplus(const In& x, double beta = 1, double threshold = 20);
// a + weight * (b - a); one floating dtype, all broadcast; weight may be a number.
WT_API Tensor lerp(const In& a, const In& b, const Operand& weight);
// c ? a : b; c is bool, a and b promote. Throws DtypeError for another c.
WT_API Tensor where(const In& c, const Operand& a, const Operand& b);

}  // namespace wt
