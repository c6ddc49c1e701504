// A cast whose values are there already.
#pragma once
#include "warptape/core/in.h"

namespace wt::detail {

// to_dtype() of an x whose converted values are `stored`, of the same shape: no kernel runs, and
// the gradient comes back as a cast's does. Defined in autograd/ops/shape_copies.cpp.
Tensor to_dtype_stored(const In& x, const TensorImpl* stored);
// A 0-d tensor of the cpu on another device, recorded as to_device(). Its value goes along as a
// number, for which nothing waits; its gradient comes back to the cpu, for which backward does.
Tensor value_on(const In& x, Device d);

}  // namespace wt::detail
