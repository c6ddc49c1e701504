// How many elements a check finds fault with. Internal.
#pragma once
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/slices.h"

namespace wt::detail {

// Of true elements, of all slices inside of vmap(). Waits for the device.
inline i64 count_true(const Tensor& each) {
  const NoGrad no_grad;
  if (!slices_of(each.impl())) return i64(sum(each).item());
  const Unsliced all;
  return i64(sum(Tensor(every_slice(each.impl()))).item());
}

}  // namespace wt::detail
