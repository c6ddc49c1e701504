// Elementwise operators. kernels/pointwise/pointwise_formulas.h and pointwise_activations.h have
// formulas and derivatives; what is declared here and what is in kernels/pointwise/pointwise_list.h
// is the same (tests/op_cases/ops_test.cpp).
#pragma once
#include <optional>

#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/operators.h"

namespace wt {

// Operands broadcast. Types promote as in PyTorch: 0-d tensors and numbers change the dtype only
// when their category (bool, integer, float) is higher. They are not cast to it before: beside f16
// and bf16 the result is computed in f32, or f64 beside a 0-d f64, and rounded. Comparisons, and
// what chooses (maximum, clamp, ...), take them as elements of the tensor's dtype: eq(x, 0.1) holds
// for an f16 of 0.1. With integers any number is compared exactly; one that their dtype cannot hold
// is refused (DtypeError) but in sums, products and bits, where it wraps.
// Integers wrap; bool + is or, bool * is and.
// The storage-only dtypes are refused (DtypeError). Also as a + b, a - b, a * b, a / b, -x. Of
// integers abs, ceil, floor, neg, relu, round, sign, square, trunc and what has two operands give
// integers, but for div, atan2 and logaddexp; these and the rest give the default dtype.
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
// The inverse functions are NaN outside their domains, as PyTorch's.
WT_API Tensor acos(const In& x);
WT_API Tensor acosh(const In& x);
WT_API Tensor asin(const In& x);
WT_API Tensor asinh(const In& x);
WT_API Tensor atan(const In& x);
WT_API Tensor atanh(const In& x);
WT_API Tensor cos(const In& x);
WT_API Tensor cosh(const In& x);
WT_API Tensor erf(const In& x);
WT_API Tensor exp(const In& x);
WT_API Tensor expm1(const In& x);
WT_API Tensor gelu(const In& x);
WT_API Tensor gelu_tanh(const In& x);
WT_API Tensor hardsigmoid(const In& x);
WT_API Tensor hardswish(const In& x);
WT_API Tensor log(const In& x);
WT_API Tensor log10(const In& x);
WT_API Tensor log1p(const In& x);
WT_API Tensor log2(const In& x);
WT_API Tensor mish(const In& x);
WT_API Tensor reciprocal(const In& x);
WT_API Tensor rsqrt(const In& x);
WT_API Tensor sigmoid(const In& x);
WT_API Tensor silu(const In& x);
WT_API Tensor sin(const In& x);
WT_API Tensor sinh(const In& x);
WT_API Tensor relu6(const In& x);     // min(max(x, 0), 6), whose gradient is 0 at both bounds
WT_API Tensor softsign(const In& x);  // x / (1 + |x|)
WT_API Tensor sqrt(const In& x);
WT_API Tensor tan(const In& x);
WT_API Tensor tanh(const In& x);

// --- two operands, of which one may be a number ---
WT_API Tensor add(const Operand& a, const Operand& b);
WT_API Tensor atan2(const Operand& a, const Operand& b);
WT_API Tensor div(const Operand& a, const Operand& b);
WT_API Tensor logaddexp(const Operand& a, const Operand& b);  // log(e^a + e^b), without overflow
WT_API Tensor maximum(const Operand& a, const Operand& b);
WT_API Tensor minimum(const Operand& a, const Operand& b);
WT_API Tensor mul(const Operand& a, const Operand& b);
WT_API Tensor pow(const Operand& a, const Operand& b);
WT_API Tensor sub(const Operand& a, const Operand& b);

// min(a, b): PyTorch's name of minimum where b is a bound. NaN on either side is the result. Ties
// give half the gradient to each side; beside a number b, all of it to a.
WT_API Tensor clamp_max(const Operand& a, const Operand& b);
// max(a, b): see clamp_max.
WT_API Tensor clamp_min(const Operand& a, const Operand& b);

// --- whole quotients and remainders ---
// Of integers they are integers: those by 0 give 0 (quotient and remainder, as in NumPy; PyTorch
// throws on the CPU), and the least integer by -1 wraps. Of floats quotients by 0 are what a / b
// is, remainders are exact, by 0 NaN. bool is refused (DtypeError).
//
// a - b floor(a / b), with the sign of b, as Python's %; d/db is -floor(a / b).
WT_API Tensor remainder(const Operand& a, const Operand& b);
// a - b trunc(a / b), with the sign of a, as C's fmod; d/db is -trunc(a / b).
WT_API Tensor fmod(const Operand& a, const Operand& b);
// floor(a / b) of the exact quotient, and trunc(a / b); the gradients are 0.
WT_API Tensor floor_divide(const Operand& a, const Operand& b);
WT_API Tensor div_trunc(const Operand& a, const Operand& b);

// PyTorch's rounding_mode.
enum class Rounding : u8 { none, trunc, floor };
struct DivOptions {
  Rounding rounding = Rounding::none;
  WT_MISNAMED(rounding_mode, rounding);
};
// a / b, div_trunc(a, b) or floor_divide(a, b).
WT_API Tensor div(const Operand& a, const Operand& b, const DivOptions& o);

// --- bits of integers and bool, without gradient; floats are refused (DtypeError) ---
// Every bit turned over; of bool the other value.
WT_API Tensor bitwise_not(const In& x);
// The bits that both have; of bools whether both are true.
WT_API Tensor bitwise_and(const Operand& a, const Operand& b);
// The bits that either has; of bools whether one is true.
WT_API Tensor bitwise_or(const Operand& a, const Operand& b);
// The bits that one of them has; of bools whether they differ.
WT_API Tensor bitwise_xor(const Operand& a, const Operand& b);
// a shifted by b bits; bool is refused too. By a negative count, or by as many bits as a has and
// more, the left one is 0 and the right one 0 or, of a negative number, -1, as in PyTorch.
WT_API Tensor bitwise_left_shift(const Operand& a, const Operand& b);
// See bitwise_left_shift; the sign stays.
WT_API Tensor bitwise_right_shift(const Operand& a, const Operand& b);

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
WT_API Tensor logical_xor(const Operand& a, const Operand& b);
WT_API Tensor lt(const Operand& a, const Operand& b);
WT_API Tensor ne(const Operand& a, const Operand& b);

// --- with parameters ---
// min(max(x, lo), hi). An integer tensor with a floating bound becomes the default dtype; a bound
// that is NaN is the result.
WT_API Tensor clamp(const In& x, Scalar lo, Scalar hi);
struct ClampOptions {
  std::optional<Scalar> min{}, max{};
};
// The same with one bound or both. Throws UsageError without any.
WT_API Tensor clamp(const In& x, const ClampOptions& o);
// Bounds that broadcast: clamp_max(clamp_min(x, lo), hi). x has the gradient inside, beyond a bound
// that bound has it, at one either has half.
WT_API Tensor clamp(const In& x, const In& lo, const In& hi);
struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf{}, neginf{};  // else the largest and the least number of the dtype
};
// x where it is finite, else the number given for what it is; the gradient passes where x is
// finite. Integers stay as they are.
WT_API Tensor nan_to_num(const In& x, const NanToNumOptions& o = {});
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
