// Order: sorting, counting, drawing by weight.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// What sort and topk give: elements and where they were (i64).
struct SortResult {
  Tensor values, indices;
};
// The elements along an axis in ascending order, and their places. Equal elements keep their order,
// -0 equals 0, NaN is larger than any number: last, or first when descending. Every computing
// dtype. The gradient goes back to the places. Throws ShapeError for the axis,
// DtypeError for dtypes that are for storage only.
WT_API SortResult sort(const In& x, Dim axis = -1, SortOptions options = {});
inline SortResult sort(const In& x, SortOptions options) { return sort(x, -1, options); }
// The places of sort alone (i64). No gradient.
WT_API Tensor argsort(const In& x, Dim axis = -1, SortOptions options = {});
inline Tensor argsort(const In& x, SortOptions options) { return argsort(x, -1, options); }
// The k largest (or least) elements along an axis, the first of them first, and their places; of
// equal ones those that come first are taken. The result is always sorted. The gradient goes back
// to the places. Throws ShapeError for the axis and when k is negative or more than the
// axis has, DtypeError for dtypes that are for storage only.
WT_API SortResult topk(const In& x, i64 k, Dim axis = -1, TopkOptions options = {});
inline SortResult topk(const In& x, i64 k, TopkOptions options) { return topk(x, k, -1, options); }
// How often each of 0, 1, ..., max(x) occurs in x (1-d, of integers): i64, of max(minlength,
// 1 + largest) elements; with weights the sum of those of its occurrences, of their dtype, added in
// f64 in the order of the list. The shape depends on values, which the host reads. No gradient. On
// the cpu. Throws ShapeError when x is not 1-d or weights has not its shape, DtypeError unless x is
// i64, i32, u8 or bool and weights are floating, IndexError for a negative element, UsageError for
// a negative minlength or a meta tensor.
WT_API Tensor bincount(const In& x, i64 minlength = 0);
WT_API Tensor bincount(const In& x, const In& weights, i64 minlength = 0);

struct MultinomialOptions {
  bool replacement = false;
};
// `draws` places (i64) from each row of p ([places] or [rows, places]), with probabilities in
// proportion to the row; without replacement no place twice, in the order of successive draws
// (Efraimidis and Spirakis, 2006). Philox numbers of the generator's user stream: one seed gives
// the same bits, whatever the threads. No gradient. Throws DtypeError unless p is
// floating, ShapeError for other ranks or when a row has fewer places than draws, UsageError when p
// has a negative or infinite element or NaN, a row of zeros, or without replacement fewer places
// above zero than draws.
WT_API Tensor multinomial(const In& p, i64 draws, MultinomialOptions options = {});

}  // namespace wt
