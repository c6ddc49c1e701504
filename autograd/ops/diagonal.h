// Triangles and diagonals of matrices.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// The lower triangle of the last two axes, the rest zero: the elements with column <= row + k. Any
// computing dtype; what is left out is zero even where x is NaN or infinite. Throws ShapeError
// below two dimensions.
WT_API Tensor tril(const In& x, i64 k = 0);
// The upper triangle: the elements with column >= row + k. As tril.
WT_API Tensor triu(const In& x, i64 k = 0);
// The elements whose index along axis2 is the one along axis1 plus `offset`: a new last axis in the
// place of the two. A view. Throws ShapeError below two dimensions and for equal axes.
WT_API Tensor diagonal(const In& x, i64 offset = 0, i64 axis1 = 0, i64 axis2 = 1);
// Zeros of `shape` with gout on a diagonal: the gradient of diagonal. Throws ShapeError when gout
// has not the shape of that diagonal.
WT_API Tensor diagonal_backward(const In& gout, const Shape& shape, i64 offset = 0, i64 axis1 = 0,
                                i64 axis2 = 1);
// A matrix that is zero but for x on its diagonal (x 1-d, of n elements: [n + |offset|, n +
// |offset|]), or a copy of the diagonal of a matrix (x 2-d). Throws ShapeError for other x.
WT_API Tensor diag(const In& x, i64 offset = 0);
// Matrices, whose rows and columns are axis1 and axis2 of the result, that are zero but for the
// last axis of x on a diagonal. Throws ShapeError for a 0-d tensor and for equal axes.
WT_API Tensor diag_embed(const In& x, i64 offset = 0, i64 axis1 = -2, i64 axis2 = -1);
// The sum of the diagonal of a matrix (2-d): integers and bool give i64. Throws ShapeError for
// other x, DtypeError for storage-only dtypes.
WT_API Tensor trace(const In& x);

}  // namespace wt
