// Scans: running sums and products, linear recurrences.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// Running sums along an axis: y_k = x_0 + ... + x_k. Integers and bool give i64, which wraps;
// floats are carried in f64. Throws ShapeError for the axis, DtypeError for dtypes that
// are for storage only.
WT_API Tensor cumsum(const In& x, Dim axis);
// Running products along an axis: y_k = x_0 x_1 ... x_k. Integers and bool give i64, which wraps;
// floats are carried in f64. Both derivatives are right where elements are 0. Throws
// ShapeError for the axis, DtypeError for dtypes that are for storage only.
WT_API Tensor cumprod(const In& x, Dim axis);

struct LinearScanOptions {
  bool reverse = false;  // from the last element to the first
};
// A linear recurrence along an axis: y_k = a_k y_(k-1) + b_k, with nothing before the first element
// (a_0 is not looked at); with reverse y_k = a_k y_(k+1) + b_k. Discounted returns, leaky averages
// and state-space layers are of this form. a and b have one shape and one floating dtype; f64
// carries between the elements. Throws ShapeError and DtypeError. PyTorch has none.
WT_API Tensor linear_scan(const In& a, const In& b, Dim axis, LinearScanOptions options = {});

}  // namespace wt
