// Comparing whole tensors: the answers are plain bools, for which the host waits for the device.
// Nothing is recorded. Throw PlacementError for operands on two devices and for meta tensors, which
// have no values.
#pragma once
#include "warptape/autograd/ops/composite_pointwise.h"

namespace wt {

// Have they one shape, one dtype and equal elements? NaN equals nothing, not even itself: a tensor
// with a NaN is not equal to itself. Any dtype.
[[nodiscard]] WT_API bool equal(const In& a, const In& b);

using AllcloseOptions = IscloseOptions;
// Is isclose true of all elements? Throws as it does.
[[nodiscard]] WT_API bool allclose(const In& a, const In& b, const AllcloseOptions& options = {});

}  // namespace wt
