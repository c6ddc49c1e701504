// Matrices taken apart, and triangular systems. f32 and f64; the last two axes are the matrices,
// the others count them. On the cpu through LAPACK where the build has OpenBLAS, with which it
// comes; else slowly, by the textbook. On devices cholesky and eigh wait for the result, because
// the host reads whether they failed: of a matrix with NaN they do, where the others carry it on.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// The lower triangular L with L L^T = a, of a symmetric positive definite a [.., n, n], whose lower
// triangle is read. The gradient is that of a symmetric a (Murray 2016, arXiv:1602.07527), and has
// derivatives of its own. Throws ShapeError unless the matrices are square, DtypeError
// unless they are f32 or f64, NumericError naming the first matrix that is not positive definite,
// as one with NaN in the lower triangle is not. PyTorch's name: torch.linalg.cholesky.
WT_API Tensor cholesky(const In& a);

struct SolveTriangularOptions {
  bool upper = false;          // which triangle of a is read
  bool transposed = false;     // solve a^T x = b
  bool unitriangular = false;  // the diagonal is not read but taken for 1
};
// The x [.., n, k] of a x = b, a [.., n, n] being triangular and b [.., n, k]; the other axes
// broadcast. The other triangle of a is not read and has gradient 0; a 0 on the diagonal gives
// infinities. Both derivatives. Throws ShapeError, DtypeError unless both are f32 or
// f64. PyTorch's name: torch.linalg.solve_triangular, which has no `transposed`.
WT_API Tensor solve_triangular(const In& a, const In& b, SolveTriangularOptions options = {});

struct QrResult {
  Tensor q, r;
};
// a [.., m, n] = q r: with k = min(m, n) the columns of q [.., m, k] are orthonormal and r [.., k,
// n] is upper triangular (the reduced form). No derivative. Throws ShapeError,
// DtypeError unless a is f32 or f64. PyTorch's name: torch.linalg.qr.
WT_API QrResult qr(const In& a);

struct EighResult {
  Tensor values, vectors;
};
// a = vectors diag(values) vectors^T of a symmetric a [.., n, n], whose lower triangle is read:
// values [.., n] ascend, the columns of vectors [.., n, n] are orthonormal. No derivative. Throws
// ShapeError, DtypeError unless a is f32 or f64, NumericError when the iteration does not converge,
// as of NaN and infinities. PyTorch's name: torch.linalg.eigh.
WT_API EighResult eigh(const In& a);

}  // namespace wt
