// The operators that have a method form, x.exp() for exp(x), by the kind of their arguments: what
// declares them (core/tensor.h), defines them (autograd/operator_methods.cpp) and tests them. They
// are those that PyTorch has as methods.
#pragma once

// clang-format off
// Of one tensor.
#define WT_UNARY_METHODS(X) \
  X(abs) X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(bernoulli) X(bitwise_not) \
  X(ceil) X(cholesky) X(cos) X(cosh) X(det) X(erf) X(exp) X(exp2) X(expm1) X(floor) X(inverse) \
  X(isfinite) X(isinf) X(isnan) X(log) X(log10) X(log1p) X(log2) X(logical_not) X(median) \
  X(nan_to_num) X(neg) X(nonzero) X(reciprocal) X(relu) X(round) X(rsqrt) X(sigmoid) X(sign) \
  X(sin) X(sinh) X(sqrt) X(square) X(tan) X(tanh) X(trace) X(trunc)
// Of a tensor and another one, a number or a loss.
#define WT_BINARY_METHODS(X) \
  X(add) X(atan2) X(bitwise_and) X(bitwise_left_shift) X(bitwise_or) X(bitwise_right_shift) \
  X(bitwise_xor) X(clamp_max) X(clamp_min) X(div) X(eq) X(floor_divide) X(fmod) X(ge) X(gt) \
  X(le) X(logaddexp) X(logical_and) X(logical_or) X(logical_xor) X(lt) X(maximum) X(minimum) \
  X(mul) X(ne) X(pow) X(remainder) X(sub)
// Of two tensors.
#define WT_PAIR_METHODS(X) \
  X(bmm) X(dot) X(isclose) X(kron) X(masked_select) X(matmul) X(outer) X(prelu) X(xlogy)
// Along an axis.
#define WT_AXIS_METHODS(X) \
  X(cumprod) X(cumsum) X(log_softmax) X(softmax)
// Over axes, all of them when none is named.
#define WT_REDUCTION_METHODS(X) \
  X(all) X(amax) X(amin) X(any) X(argmax) X(argmin) X(logsumexp) X(max) X(mean) X(min) X(prod) \
  X(sum)
// clang-format on
