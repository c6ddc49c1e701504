// Comparing whole tensors: the answers are plain bools, for which the host waits for the device.
// Nothing is recorded. Throw PlacementError for operands on two devices and for meta tensors, which
// have no values.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// Have they one shape, one dtype and equal elements? NaN equals nothing, not even itself: a tensor
// with a NaN is not equal to itself. Any dtype.
[[nodiscard]] WT_API bool equal(const In& a, const In& b);

struct AllcloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // NaN is close to NaN
};
// |a - b| <= atol + rtol |b| for all elements, of shapes that broadcast and of any one dtype? Of
// infinities only equal ones are close. Compared in f32, f64 operands and integers in f64. Throws
// DtypeError for two dtypes, ShapeError, UsageError for a negative tolerance.
[[nodiscard]] WT_API bool allclose(const In& a, const In& b, const AllcloseOptions& options = {});

}  // namespace wt
