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

struct GumbelSoftmaxOptions {
  double tau = 1;
  bool hard = false;
  i64 dim = -1;
};
// A differentiable draw from the categories along axis `dim` (Jang et al. 2017, arXiv:1611.01144):
// softmax((logits + g) / tau) with g = -log(-log(u)), u uniform in [0, 1) of the generator's user
// stream, 53 bits each. hard: 1 at the largest, the first one where several are, and 0 elsewhere;
// the gradient is as without. Floating dtypes; 16-bit floats compute in f32. Throws UsageError
// unless tau > 0, ShapeError for the axis.
WT_API Tensor gumbel_softmax(const In& logits, const GumbelSoftmaxOptions& options = {});

}  // namespace wt
