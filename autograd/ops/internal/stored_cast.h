// A cast whose values are there already.
#pragma once
#include "warptape/core/in.h"

namespace wt::detail {

// to_dtype() of an x whose converted values are `stored`, of the same shape: no kernel runs, and
// the gradient comes back as a cast's does. Defined in autograd/ops/shape_copies.cpp.
Tensor to_dtype_stored(const In& x, const TensorImpl* stored);

}  // namespace wt::detail
