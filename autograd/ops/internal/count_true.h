// How many elements a check finds fault with. Internal.
#pragma once
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/slices.h"

namespace wt::detail {

// Of true elements, of all slices inside of vmap(). Waits for the device.
inline i64 count_true(const Tensor& each) {
  const NoGrad no_grad;
  const EverySlice all(each);
  return i64(sum(all.values()).item());
}

}  // namespace wt::detail
