// Elementwise operators. kernels/pointwise_formulas.h and pointwise_activations.h have formulas and
// derivatives; what is declared here and what is in kernels/pointwise_list.h is the same
// (tests/op_cases/ops_test.cpp).
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/operators.h"

namespace wt {

// Operands broadcast. Types promote as in PyTorch: 0-d tensors and numbers change the dtype only
// when their category (bool, integer, float) is higher. Integers wrap; bool + is or, bool * is and.
// The storage-only dtypes are refused (DtypeError). Also as a + b, a - b, a * b, a / b, -x. Of
// integers abs, ceil, floor, neg, relu, round, sign, square, trunc and what has two operands give
// integers, but for div and atan2; these and the rest give the default dtype.
//
// The activations clamp elu gelu hardsigmoid hardswish leaky_relu mish relu sigmoid silu softplus
// tanh, and add and mul, have a form in place: x.relu_(), of floats (relu_ and clamp_ of integers).

// --- one operand; integers stay integers ---
WT_API Tensor abs(const In& x);
WT_API Tensor ceil(const In& x);
WT_API Tensor floor(const In& x);
WT_API Tensor neg(const In& x);
WT_API Tensor relu(const In& x);
WT_API Tensor round(const In& x);  // halves go to the even neighbour
WT_API Tensor sign(const In& x);
WT_API Tensor square(const In& x);
WT_API Tensor trunc(const In& x);

// --- one operand; integers become the default dtype ---
WT_API Tensor cos(const In& x);
WT_API Tensor erf(const In& x);
WT_API Tensor exp(const In& x);
WT_API Tensor expm1(const In& x);
WT_API Tensor gelu(const In& x);
WT_API Tensor gelu_tanh(const In& x);
WT_API Tensor hardsigmoid(const In& x);
WT_API Tensor hardswish(const In& x);
WT_API Tensor log(const In& x);
WT_API Tensor log1p(const In& x);
WT_API Tensor mish(const In& x);
WT_API Tensor reciprocal(const In& x);
WT_API Tensor rsqrt(const In& x);
WT_API Tensor sigmoid(const In& x);
WT_API Tensor silu(const In& x);
WT_API Tensor sin(const In& x);
WT_API Tensor sinh(const In& x);
WT_API Tensor sqrt(const In& x);
WT_API Tensor tan(const In& x);
WT_API Tensor tanh(const In& x);

// --- two operands, of which one may be a number ---
WT_API Tensor add(const Operand& a, const Operand& b);
WT_API Tensor atan2(const Operand& a, const Operand& b);
WT_API Tensor div(const Operand& a, const Operand& b);
WT_API Tensor maximum(const Operand& a, const Operand& b);
WT_API Tensor minimum(const Operand& a, const Operand& b);
WT_API Tensor mul(const Operand& a, const Operand& b);
WT_API Tensor pow(const Operand& a, const Operand& b);
WT_API Tensor sub(const Operand& a, const Operand& b);

// --- to bool, without gradient ---
WT_API Tensor isfinite(const In& x);
WT_API Tensor isinf(const In& x);
WT_API Tensor isnan(const In& x);
WT_API Tensor logical_not(const In& x);
WT_API Tensor eq(const Operand& a, const Operand& b);
WT_API Tensor ge(const Operand& a, const Operand& b);
WT_API Tensor gt(const Operand& a, const Operand& b);
WT_API Tensor le(const Operand& a, const Operand& b);
WT_API Tensor logical_and(const Operand& a, const Operand& b);
WT_API Tensor logical_or(const Operand& a, const Operand& b);
WT_API Tensor lt(const Operand& a, const Operand& b);
WT_API Tensor ne(const Operand& a, const Operand& b);

// --- with parameters ---
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
