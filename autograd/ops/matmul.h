// Matrix products.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// a [.., m, k] times b [.., k, n] gives [.., m, n]; the batch dimensions broadcast. A 1-d operand
// is a row (a) or a column (b) and its dimension is dropped from the result, as in PyTorch. One
// dtype, f64, f32, f16, bf16 (both summed in f32), i64 or i32; k = 0 gives zeros. A transposed or
// sliced matrix is not copied. Throws ShapeError and DtypeError.
WT_API Tensor matmul(const In& a, const In& b);
// y = x w^T + bias: x [.., in], w [out, in], bias [out], y [.., out]. One kernel each for y, for dx
// and for dw with dbias.
WT_API Tensor linear(const In& x, const In& w);
WT_API Tensor linear(const In& x, const In& w, const In& bias);

}  // namespace wt
