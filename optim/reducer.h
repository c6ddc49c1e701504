// What a training step needs of other ranks. dist implements it.
#pragma once
#include "warptape/core/tensor.h"

namespace wt::optim {

// Both work in place on dense tensors of the model's device, on the current stream, and return
// before the result is there. Every rank calls them in the same order.
class WT_API Reducer {
 public:
  virtual ~Reducer() = default;
  // Gradient arenas, and the pair (sum of losses, weight).
  virtual void sum(const Tensor& t) = 0;
  // The predicate: any rank's skip makes all skip.
  virtual void max(const Tensor& t) = 0;
};

}  // namespace wt::optim
