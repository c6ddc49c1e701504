// Squared error of two tensors, summed.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// loss_sum = sum((a - b)^2), weight = number of elements. a, b: one shape and dtype, any strides,
// f64 f32 f16 bf16. loss_sum, weight: 0-d, f64 for f64, else f32, which is also what is
// accumulated in. Nothing is saved beside a and b. The sum of nothing is 0.
struct MseForwardArgs {
  View loss_sum, weight;
  View a, b;
  i64 bytes() const { return a.bytes() + b.bytes(); }
  i64 flops() const { return 3 * a.numel(); }
};
WT_CONTRACT(mse_forward, MseForwardArgs);

// ga = factor * grad * (a - b): factor is 2 for the gradient of a, -2 for that of b.
// ga: the shape and dtype of a and b, any strides; may be a or b. grad: 0-d, in loss_sum's dtype.
struct MseBackwardArgs {
  View ga;
  View grad;
  View a, b;
  double factor = 2;
  i64 bytes() const { return ga.bytes() + a.bytes() + b.bytes(); }
  i64 flops() const { return 2 * a.numel(); }
};
WT_CONTRACT(mse_backward, MseBackwardArgs);

}  // namespace wt
