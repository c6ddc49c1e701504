// Random operators.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// In training: zero with probability p, else x / (1 - p); the mask comes from the generator's
// dropout stream by logical element, the same bits on every device. Otherwise x itself. Throws
// UsageError unless 0 <= p <= 1.
WT_API Tensor dropout(const In& x, double p = 0.5, bool training = true);

}  // namespace wt
