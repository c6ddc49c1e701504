// The strong Wolfe line search of L-BFGS. Internal.
#pragma once
#include <functional>

#include "warptape/core/tensor.h"

namespace wt::optim::detail {

// A point along the direction: step length, loss, gradient and its product with the direction.
struct LinePoint {
  double t = 0, loss = 0;
  Tensor grad{};
  double slope = 0;
};
struct LineResult {
  LinePoint best;
  i64 evaluations = 0;
};

// From `start` (t = 0), first trying t. `at(t)` evaluates; `longest` is the largest element of the
// direction. A loss that is not finite counts as infinite.
LineResult strong_wolfe(const std::function<LinePoint(double)>& at, const LinePoint& start,
                        double t, double longest, double tolerance_change, i64 max_evaluations);

}  // namespace wt::optim::detail
