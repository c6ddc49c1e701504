// Singular values, and what is made of them. f32 and f64; the last two axes are the matrices, the
// others count them. On the cpu through LAPACK where the build has OpenBLAS; else slowly, by the
// textbook. All of them wait for the device, because the host reads whether the iteration
// converged: of a matrix with NaN or infinities it does not, and NumericError names the first such
// matrix.
#pragma once
#include <optional>

#include "warptape/core/in.h"

namespace wt {

struct SvdOptions {
  bool full_matrices = true;  // u and vh are square
};
struct SvdResult {
  Tensor u, s, vh;
};
// a [.., m, n] = u diag(s) vh: with k = min(m, n) s [.., k] descends and is not negative, the
// columns of u [.., m, m] and the rows of vh [.., n, n] are orthonormal; without full_matrices u is
// [.., m, k] and vh [.., k, n]. The signs of the vectors, and whole bases for equal singular
// values, are free: they may differ from PyTorch's and from one device to another. A loss must not
// depend on them, nor on what is beyond the first k vectors, whose gradient is ignored, as in
// PyTorch. With e_ij = s_j^2 - s_i^2 and 1 on the diagonal, skew(x) = x - x^T:
//   ga = u ((skew(u^T gu) diag(s) + diag(s) skew(vh gvh^T)) / e + diag(gs)) vh
// and, with k < m, (I - u u^T) gu diag(1/s) vh, with k < n, u diag(1/s) gvh (I - vh^T vh). Both
// derivatives; those by u and vh grow without bound as singular values come near each other, and
// near 0 unless a is square. Those by s alone do not. Throws ShapeError, DtypeError unless a is f32
// or f64, NumericError. PyTorch's name: torch.linalg.svd, whose default is full_matrices too.
WT_API SvdResult svd(const In& a, SvdOptions options = {});
// svd(a).s, which is quicker without vectors: they are found for a gradient alone. PyTorch's name:
// torch.linalg.svdvals.
WT_API Tensor svdvals(const In& a);

// Singular values of no more than max(atol, rtol times the largest one) count as 0. atol: 0 if
// missing; rtol: if missing, 0 where atol is above 0, else max(m, n) times the machine epsilon.
struct SingularOptions {
  std::optional<double> atol{}, rtol{};
};
// The inverse of Moore and Penrose [.., n, m] of a [.., m, n]: vh^T diag(1 / s) u^T of the singular
// values that do not count as 0. Both derivatives are right where the rank does not change (Golub
// and Pereyra 1973). Throws as svd, UsageError for a negative tolerance. PyTorch's name:
// torch.linalg.pinv.
WT_API Tensor pinv(const In& a, SingularOptions options = {});
// How many singular values of each matrix do not count as 0: i64 [..]. No derivative. Throws as
// pinv. PyTorch's name: torch.linalg.matrix_rank.
WT_API Tensor matrix_rank(const In& a, SingularOptions options = {});

}  // namespace wt
