// Draws by probability. rand, randn and other factories are in core/factories.h.
#pragma once
#include "warptape/core/factories.h"
#include "warptape/core/in.h"

namespace wt {

// 1 where a uniform number of [0, 1), of 53 bits, is below p, else 0. From a tensor: of its shape
// and dtype, an element for each probability, which the host looks at (not on meta). From a number:
// of the shape and dtype given. Philox numbers of the generator's user stream: one seed gives the
// same bits on every device. No gradient. Throws UsageError for a p outside [0, 1], DtypeError
// unless a tensor is floating and for 8-bit floats.
WT_API Tensor bernoulli(const In& p);
WT_API Tensor bernoulli(double p, const Shape& shape, const TensorOptions& o = {},
                        Frame at = Frame::here());

}  // namespace wt
