// Systems of linear equations, inverses and determinants, by LU factors with partial pivoting. f32
// and f64; the last two axes are the matrices, the others count them. solve and inverse wait for
// the device, because the host reads whether a matrix is singular.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// The x [.., n, k] of a x = b, a [.., n, n] and b [.., n, k]; the other axes broadcast. Both
// derivatives: gb = a^-T gx, ga = -gb x^T. Throws ShapeError unless the matrices are square and the
// rows agree, DtypeError unless both are f32 or f64, NumericError naming the first singular matrix
// (one with a pivot of exactly 0). PyTorch's name: torch.linalg.solve, which takes vectors too.
WT_API Tensor solve(const In& a, const In& b);
// a^-1 of a [.., n, n]: ga = -y^T gy y^T, y being the inverse. Throws as solve. PyTorch's name:
// torch.linalg.inv.
WT_API Tensor inverse(const In& a);
// The determinants [..] of a [.., n, n]; 1 with n = 0. ga = gy y a^-T; of a singular matrix, whose
// determinant is 0, gy times the cofactors (the adjugate, transposed). Throws ShapeError unless the
// matrices are square, DtypeError unless they are f32 or f64.
WT_API Tensor det(const In& a);

struct SlogdetResult {
  Tensor sign, logabsdet;
};
// det(a) = sign exp(logabsdet) of a [.., n, n], both [..]: a determinant that no float holds has a
// logarithm still. A singular matrix has 0 and -inf, one with NaN 0 and NaN, as in PyTorch; n = 0
// gives 1 and 0. ga = g a^-T, g being logabsdet's; sign has gradient 0. The gradient of a singular
// matrix, g times the cofactors by 0, is infinite with their sign, and 0 where they are. Throws
// ShapeError and DtypeError as det. PyTorch's name: torch.linalg.slogdet.
WT_API SlogdetResult slogdet(const In& a);

}  // namespace wt
