// Softmax and its logarithm.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// exp(x) / sum(exp(x)) along an axis (negative counts from the end). x: any strides, f64 f32 f16
// bf16 (16 bits compute in f32). Rows of only -inf give NaN, as in PyTorch. Throws ShapeError for
// the axis, DtypeError for other dtypes.
WT_API Tensor softmax(const In& x, Dim axis);
// x - log(sum(exp(x))) along an axis: the logarithm of softmax, without its overflows. As softmax.
WT_API Tensor log_softmax(const In& x, Dim axis);

}  // namespace wt
