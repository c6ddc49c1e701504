// Reductions over axes.
#pragma once
#include "warptape/core/in.h"

namespace wt {

struct Backward;

// Over the given axes (all when omitted, none for {}), which disappear unless keep_dim. Computing
// dtypes. 16-bit floats accumulate in f32; the order of the additions is fixed. Throw ShapeError
// for bad axes, DtypeError for storage-only dtypes.
//
// Integers and bool give i64. The sum of nothing is 0.
WT_API Tensor sum(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// sum / number of elements; floating dtypes only (DtypeError). The mean of nothing is NaN.
WT_API Tensor mean(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The product of the elements over any axes. Integers and bool give i64, which wraps. The product
// of nothing is 1. Both derivatives are right where elements are 0. Throws ShapeError for bad axes.
WT_API Tensor prod(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The largest element: NaN if there is one. Elements that share it share its gradient evenly.
// Throws ShapeError when there is no element. PyTorch's name: amax.
WT_API Tensor max(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The least element: NaN if there is one. Elements that share it share its gradient evenly. Throws
// ShapeError when there is no element. PyTorch's name: amin.
WT_API Tensor min(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// PyTorch's name of max() over axes.
inline Tensor amax(const In& x, const Dims& dims = Dims::all(), SumOptions options = {}) {
  return max(x, dims, options);
}
// PyTorch's name of min() over axes.
inline Tensor amin(const In& x, const Dims& dims = Dims::all(), SumOptions options = {}) {
  return min(x, dims, options);
}
// The place (i64) of the largest element along one axis, or in the flattened tensor: the first of
// equal ones, the first NaN if there is one. No gradient. Throws ShapeError when there is no
// element.
WT_API Tensor argmax(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The same of the least element.
WT_API Tensor argmin(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// A bool: is any element not zero? NaN is not zero; of nothing it is false. No gradient.
WT_API Tensor any(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// A bool: are all elements not zero? Of nothing it is true. No gradient.
WT_API Tensor all(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// Reverse of broadcasting: x summed over the axes along which `shape` was repeated; x itself when
// the shapes agree.
WT_API Tensor sum_to(const In& x, const Shape& shape);

namespace detail {
// Behind Backward::put_broadcast: hands over t, summed to the shape of input i; a leaf's slot is
// written directly.
void put_sum_to(Backward& g, u32 i, Tensor t);
}  // namespace detail

}  // namespace wt
