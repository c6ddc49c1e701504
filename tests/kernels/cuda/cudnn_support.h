// For the tests of cuDNN's variants.
#pragma once
#include <cmath>
#include <vector>

#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"

namespace wt_test {

inline double worst(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(a[i] - b[i]);
    if (!(d <= most)) most = d;
  }
  return most;
}

}  // namespace wt_test
