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
// The distance sum(|a_i - b_j|^p)^(1/p) of each row a_i of a [.., n, d] to each row b_j of b [..,
// r, d]: [.., n, r]; the other axes broadcast. p = inf gives the largest |difference|, p = 0 their
// number, without gradient. The gradient at distance 0 is 0, and of p = inf it goes whole to each
// of several largest differences, both as in PyTorch. Near points keep their digits: differences
// come before squares. Second derivatives (create_graph), and devices without a kernel, make the
// differences [.., n, r, d]. One floating dtype; 16-bit floats compute in f32. Throws ShapeError,
// DtypeError, and UsageError unless p >= 0.
WT_API Tensor cdist(const In& a, const In& b, double p = 2);

}  // namespace wt
