// Elements picked and written by index along one axis, and by mask.
#pragma once
#include <optional>

#include "warptape/core/in.h"

namespace wt {

// Indices are i64 or i32 and count from 0: an index outside [0, size) of the axis throws IndexError
// with its value and place, on the cpu at once and before anything is written, on other devices at
// the next wait. (index() and index_put_() also take negative ones.)

// y[.., j, ..] = x[.., index[.., j, ..], ..], j along `axis`: the shape of index, which has as many
// axes as x, none but `axis` longer than x's. Any dtype. The gradient is a scatter_add.
WT_API Tensor gather(const In& x, i64 axis, const In& index);
// x with y[.., index[.., j, ..], ..] = source[.., j, ..] as a new tensor. source is a number, or a
// tensor of x's dtype at least as large as index in each axis (what is beyond is not used). Where
// indices are equal the last j counts, on every device, and it alone gets the gradient. Any dtype.
WT_API Tensor scatter(const In& x, i64 axis, const In& index, const Operand& source);
// The same with +=, in ascending order of j whatever the number of threads: equal inputs give equal
// bits. 16-bit floats are added in f32. Floats and integers.
WT_API Tensor scatter_add(const In& x, i64 axis, const In& index, const In& source);
// The elements at `index` (1-d, or 0-d for one) of an axis of x, in its order: a copy, which has
// the order of x's axes in memory. Any dtype.
WT_API Tensor index_select(const In& x, i64 axis, const In& index);
struct IndexAddOptions {
  Scalar alpha = 1;
};
// x with alpha * source added at `index` (1-d, or 0-d for one) of an axis, as a new tensor, in
// ascending order of the places in index. source has the shape of index_select(x, axis, index) and
// x's dtype. Floats and integers; for integers alpha must be one.
WT_API Tensor index_add(const In& x, i64 axis, const In& index, const In& source,
                        const IndexAddOptions& options = {});
// x where mask (bool) is false, `value` (a number or a 0-d tensor) where it is true; both
// broadcast. The result has x's dtype. Throws DtypeError for a mask that is not bool and for a
// value that x's dtype cannot hold: a float for integers, or a number that would wrap or become
// infinite (-1e9 of f16; -INFINITY is what masks mean); ShapeError for a value of more than one
// element.
WT_API Tensor masked_fill(const In& x, const In& mask, const Operand& value);
// The elements of x where mask (bool) is true, in logical order: 1-d. Both broadcast. Their number
// is read by the host. Throws DtypeError for another mask, UsageError on meta.
WT_API Tensor masked_select(const In& x, const In& mask);
// The indices of the elements that are not zero (NaN is not), in logical order: i64 [n, ndim]. n is
// read by the host. No gradient. Throws UsageError on meta.
WT_API Tensor nonzero(const In& x);
// One more axis of size `classes` that is 1 at the index and 0 elsewhere, i64. Without `classes` it
// is the largest index + 1, which the host reads. No gradient. Throws IndexError for an index
// outside [0, classes), ShapeError for classes < 1 and for no index to find their number from.
WT_API Tensor one_hot(const In& index, std::optional<i64> classes = {});

}  // namespace wt
