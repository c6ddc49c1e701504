// Elementwise operators: THE LIST, X(M, name, entry); M is passed on. autograd/ops/pointwise.h
// declares what is in it.
#pragma once

// clang-format off
// `Tensor name(const In& x)` with a fused backward,
#define WT_POINTWISE_UNARY(X, M) \
  X(M, abs, Abs)                 \
  X(M, cos, Cos)                 \
  X(M, erf, Erf)                 \
  X(M, exp, Exp)                 \
  X(M, expm1, Expm1)             \
  X(M, gelu, Gelu)               \
  X(M, gelu_tanh, GeluTanh)      \
  X(M, hardsigmoid, Hardsigmoid) \
  X(M, hardswish, Hardswish)     \
  X(M, log, Log)                 \
  X(M, log1p, Log1p)             \
  X(M, mish, Mish)               \
  X(M, reciprocal, Reciprocal)   \
  X(M, relu, Relu)               \
  X(M, rsqrt, Rsqrt)             \
  X(M, sigmoid, Sigmoid)         \
  X(M, silu, Silu)               \
  X(M, sin, Sin)                 \
  X(M, sinh, Sinh)               \
  X(M, sqrt, Sqrt)               \
  X(M, square, Square)           \
  X(M, tan, Tan)                 \
  X(M, tanh, Tanh)
// and without one.
#define WT_POINTWISE_UNARY_PLAIN(X, M) \
  X(M, ceil, Ceil)                     \
  X(M, floor, Floor)                   \
  X(M, isfinite, IsFinite)             \
  X(M, isinf, IsInf)                   \
  X(M, isnan, IsNan)                   \
  X(M, logical_not, LogicalNot)        \
  X(M, neg, Neg)                       \
  X(M, round, Round)                   \
  X(M, sign, Sign)                     \
  X(M, trunc, Trunc)
// `Tensor name(const Operand& a, const Operand& b)` with two fused backwards,
#define WT_POINTWISE_BINARY(X, M) \
  X(M, atan2, Atan2)              \
  X(M, div, Div)                  \
  X(M, maximum, Maximum)          \
  X(M, minimum, Minimum)          \
  X(M, pow, Pow)
// and without.
#define WT_POINTWISE_BINARY_PLAIN(X, M) \
  X(M, add, Add)                        \
  X(M, eq, Eq)                          \
  X(M, ge, Ge)                          \
  X(M, gt, Gt)                          \
  X(M, le, Le)                          \
  X(M, logical_and, LogicalAnd)         \
  X(M, logical_or, LogicalOr)           \
  X(M, lt, Lt)                          \
  X(M, mul, Mul)                        \
  X(M, ne, Ne)                          \
  X(M, sub, Sub)
// Declared and defined by hand (autograd/ops.h, ops/pointwise.cpp): with a fused backward, and without.
#define WT_POINTWISE_OTHER(X, M) \
  X(M, clamp, Clamp)             \
  X(M, elu, Elu)                 \
  X(M, leaky_relu, LeakyRelu)    \
  X(M, softplus, Softplus)
#define WT_POINTWISE_OTHER_PLAIN(X, M) \
  X(M, lerp, Lerp)                     \
  X(M, where, Where)
// clang-format on
