// Short forms for tests that look at small tensors.
#pragma once
#include <vector>

#include "warptape/core/factories.h"

using Values = std::vector<double>;

// In logical order.
inline Values values(const wt::Tensor& t) { return t.to_vector<double>(); }
// An f64 vector that wants a gradient.
inline wt::Tensor leaf(std::initializer_list<wt::Scalar> v) {
  return wt::tensor(v, {.dtype = wt::f64, .requires_grad = true});
}
