// One draw of dropout, for operators that drop inside (attention). Internal.
#pragma once
#include <cmath>

#include "warptape/core/in.h"
#include "warptape/core/philox.h"

namespace wt::detail {

struct DropoutDraw {
  PhiloxKey key{};
  u64 call = 0;
  double p = 0;
  u32 threshold() const { return u32(std::lround(p * 16777216.0)); }
  double scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};
// dropout() with this draw; `base`: see RandomCall.
Tensor dropout_with(const In& x, const DropoutDraw& draw, const Tensor& base);

}  // namespace wt::detail
