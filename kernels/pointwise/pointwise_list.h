// Elementwise operators: THE LIST, X(M, name, entry); M is passed on. autograd/ops/pointwise.h
// declares what is in it.
#pragma once

// clang-format off
// `Tensor name(const In& x)` with a fused backward (the rarer ones in kernel files of their own),
#define WT_POINTWISE_UNARY_COMMON(X, M) \
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
#define WT_POINTWISE_UNARY_RARE(X, M) \
  X(M, acos, Acos)                    \
  X(M, acosh, Acosh)                  \
  X(M, asin, Asin)                    \
  X(M, asinh, Asinh)                  \
  X(M, atan, Atan)                    \
  X(M, atanh, Atanh)                  \
  X(M, cosh, Cosh)                    \
  X(M, log10, Log10)                  \
  X(M, log2, Log2)                    \
  X(M, relu6, Relu6)                  \
  X(M, softsign, Softsign)
#define WT_POINTWISE_UNARY(X, M)  \
  WT_POINTWISE_UNARY_COMMON(X, M) \
  WT_POINTWISE_UNARY_RARE(X, M)
// and without one.
#define WT_POINTWISE_UNARY_PLAIN(X, M) \
  X(M, bitwise_not, BitwiseNot)        \
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
  X(M, logaddexp, LogAddExp)      \
  X(M, maximum, Maximum)          \
  X(M, minimum, Minimum)          \
  X(M, pow, Pow)
// and without.
#define WT_POINTWISE_BINARY_PLAIN_COMMON(X, M) \
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
#define WT_POINTWISE_BINARY_PLAIN_RARE(X, M) \
  X(M, bitwise_and, BitwiseAnd)              \
  X(M, bitwise_left_shift, ShiftLeft)        \
  X(M, bitwise_or, BitwiseOr)                \
  X(M, bitwise_right_shift, ShiftRight)      \
  X(M, bitwise_xor, BitwiseXor)              \
  X(M, clamp_max, ClampMax)                  \
  X(M, clamp_min, ClampMin)                  \
  X(M, div_trunc, DivTrunc)                  \
  X(M, floor_divide, FloorDivide)            \
  X(M, fmod, Fmod)                           \
  X(M, logical_xor, LogicalXor)              \
  X(M, remainder, Remainder)
#define WT_POINTWISE_BINARY_PLAIN(X, M)  \
  WT_POINTWISE_BINARY_PLAIN_COMMON(X, M) \
  WT_POINTWISE_BINARY_PLAIN_RARE(X, M)
// Declared and defined by hand (autograd/ops.h, ops/pointwise.cpp): with a fused backward, and without.
#define WT_POINTWISE_OTHER(X, M) \
  X(M, clamp, Clamp)             \
  X(M, elu, Elu)                 \
  X(M, leaky_relu, LeakyRelu)    \
  X(M, nan_to_num, NanToNum)     \
  X(M, softplus, Softplus)
#define WT_POINTWISE_OTHER_PLAIN(X, M) \
  X(M, lerp, Lerp)                     \
  X(M, where, Where)
// clang-format on
