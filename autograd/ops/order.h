// What is known of elements in order: extremes with their places, medians and quantiles, distinct
// elements, places in a sorted list.
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

// Elements and where they were along the axis (i64).
struct PlacedResult {
  Tensor values, indices;
};

// The largest element along an axis and its place: the first of equal ones, the first NaN if there
// is one. The axis disappears unless keep_dim. The gradient goes to that place alone (that of max
// over axes is shared by equal ones). Every computing dtype. Throws ShapeError for the axis and
// when it has no element. PyTorch's name: max(x, dim).
WT_API PlacedResult max_with_indices(const In& x, Dim axis, SumOptions options = {});
// The same of the least element. PyTorch's name: min(x, dim).
WT_API PlacedResult min_with_indices(const In& x, Dim axis, SumOptions options = {});

// The median of all elements: the lower of two middle ones, NaN if there is one. Elements that are
// equal to it share its gradient evenly. Every computing dtype. Throws ShapeError when there is no
// element.
WT_API Tensor median(const In& x);
// The same along an axis, and its place: the first NaN if there is one. The gradient goes to the
// place.
WT_API PlacedResult median(const In& x, Dim axis, SumOptions options = {});
// The median of the elements that are not NaN, and its place; where all are NaN, the first of them.
WT_API PlacedResult nanmedian(const In& x, Dim axis, SumOptions options = {});
// The k-th of an axis's elements in ascending order, k from 1, and its place; of equal elements
// they count in their order, NaN is larger than any number. The gradient goes to the place. Throws
// ShapeError for the axis and unless 1 <= k <= its size.
WT_API PlacedResult kthvalue(const In& x, i64 k, Dim axis = -1, SumOptions options = {});
inline PlacedResult kthvalue(const In& x, i64 k, SumOptions options) {
  return kthvalue(x, k, -1, options);
}

// Where a quantile lies between two elements: on the line between them, the lower, the higher, the
// middle, or the nearer one (the even one of the order when both are as near).
enum class Interpolation : u8 { linear, lower, higher, midpoint, nearest };
struct QuantileOptions {
  bool keep_dim = false;
  Interpolation interpolation = Interpolation::linear;
  WT_MISNAMED(keepdim, keep_dim);
};
// The q quantile along an axis, 0 <= q <= 1: of n elements in ascending order the one at q (n - 1),
// computed in x's dtype, of 16-bit floats in f32. NaN where there is one. With a tensor q (0-d or
// 1-d, of x's dtype) its quantiles come along a new first axis, none for 0-d. The gradient goes to
// the elements beside it, and to q. Throws DtypeError unless x and q are floating and agree,
// ShapeError for the axis, one without elements and another rank of q, UsageError for a number q
// outside [0, 1], IndexError where one in a tensor goes beyond the elements.
WT_API Tensor quantile(const In& x, double q, Dim axis, QuantileOptions options = {});
WT_API Tensor quantile(const In& x, const In& q, Dim axis, QuantileOptions options = {});

// How many elements are not zero (NaN is not) over the axes: i64. No gradient. Throws
// ShapeError for bad axes.
WT_API Tensor count_nonzero(const In& x, const Dims& dims = Dims::all());

struct UniqueResult {
  Tensor values;   // [m], ascending
  Tensor inverse;  // i64, of x's shape: values[inverse] is x
  Tensor counts;   // i64 [m]: how often each occurs
};
// The distinct elements of x in ascending order, every NaN for itself, last; always sorted. m
// depends on values, which the host reads. Every computing dtype. No gradient. Throws UsageError on
// meta. PyTorch's name: unique(x, return_inverse=True, return_counts=True).
WT_API UniqueResult unique(const In& x);

struct SearchsortedOptions {
  bool right = false;
};
// For each of `values` the place (i64) before which it goes into `sorted`, whose last axis ascends:
// the first i with sorted[i - 1] < v <= sorted[i]; with `right`, sorted[i - 1] <= v < sorted[i].
// NaN is larger than any number. sorted is 1-d, or has values' leading axes. By one stable sort of
// both, n + m elements a row. No gradient. Throws DtypeError unless both have one computing dtype,
// ShapeError for other leading axes and 0-d `sorted`.
WT_API Tensor searchsorted(const In& sorted, const In& values, SearchsortedOptions options = {});
// searchsorted of a 1-d list: which of the intervals between the boundaries each element of x is
// in. Throws as searchsorted, and ShapeError unless boundaries are 1-d.
WT_API Tensor bucketize(const In& x, const In& boundaries, SearchsortedOptions options = {});

}  // namespace wt
