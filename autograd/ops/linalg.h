// Products of matrices and vectors by name, and distances between points.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// a [n, m, k] times b [n, k, p] gives [n, m, p]: matmul that takes 3-d operands only and broadcasts
// nothing. Throws ShapeError.
WT_API Tensor bmm(const In& a, const In& b);
struct AddmmOptions {
  Scalar beta = 1, alpha = 1;
};
// beta * x + alpha * (a @ b): a [m, k], b [k, n], and x broadcasts to [m, n]. With beta 0 x is not
// looked at: its NaN is not in the result. 16-bit floats compute in f32. Throws ShapeError.
WT_API Tensor addmm(const In& x, const In& a, const In& b, AddmmOptions options = {});
// y[i, j] = a[i] b[j] of 1-d a and b, which promote. Throws ShapeError.
WT_API Tensor outer(const In& a, const In& b);
// sum(a * b) of 1-d a and b of one size. Throws ShapeError.
WT_API Tensor dot(const In& a, const In& b);
// Products summed over axes of both, the first that a names with the first that b names: the result
// has the other axes of a, then those of b. One dtype, as in matmul. Throws ShapeError for axes and
// sizes that do not fit; an axis of size 1 is not stretched, which PyTorch does.
WT_API Tensor tensordot(const In& a, const In& b, const Dims& a_dims, const Dims& b_dims);
// The same over the last `dims` axes of a and the first of b: 1 is the product of matrices, 0 that
// of all elements with all.
WT_API Tensor tensordot(const In& a, const In& b, i64 dims = 2);
// The Kronecker product: y[i * p + k, j * q + l] = a[i, j] b[k, l], b [p, q], and so on for tensors
// of at most 4 dimensions; leading axes of size 1 are added to the shorter one. Operands promote.
// Throws ShapeError.
WT_API Tensor kron(const In& a, const In& b);
// The distance sum(|a_i - b_j|^p)^(1/p) of each row a_i of a [.., n, d] to each row b_j of b [..,
// r, d]: [.., n, r]; the other axes broadcast. p = inf gives the largest |difference|, p = 0 their
// number, without gradient. The gradient at distance 0 is 0, and of p = inf it goes whole to each
// of several largest differences, both as in PyTorch. Near points keep their digits: differences
// come before squares. Second derivatives (create_graph), and devices without a kernel, make the
// differences [.., n, r, d]. One floating dtype; 16-bit floats compute in f32. Throws ShapeError,
// DtypeError, and UsageError unless p >= 0.
WT_API Tensor cdist(const In& a, const In& b, double p = 2);

}  // namespace wt
