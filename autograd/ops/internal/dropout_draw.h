// One draw of dropout, for operators that drop inside (attention). Internal.
#pragma once
#include <cmath>

#include "warptape/core/error.h"
#include "warptape/core/in.h"
#include "warptape/core/philox.h"
#include "warptape/core/random.h"

namespace wt::detail {

// Throws UsageError unless 0 <= p <= 1.
inline void check_probability(const char* op, double p, Frame at) {
  if (!(p >= 0 && p <= 1))
    throw UsageError(str("[", op, "] p must be in [0, 1], got ", p, "\n  at ", describe(at)));
}

// The next call of dropout, which errors say was made at that line.
inline RandomCall next_dropout_call(Frame at) {
  const FrameScope line(at);
  return next_random_call(RandomStream::dropout);
}

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
