// Losses over samples: all return Loss{sum, weight}.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

struct CrossEntropyOptions {
  i64 ignore_index = -100;
  double label_smoothing = 0;
};
// Cross-entropy of unnormalised logits [N, C], [N, C, d...] or [C] and i64 labels [N], [N, d...]
// or []. Samples whose label is ignore_index count neither in sum nor in weight. With smoothing e
// the target is (1 - e) at the label plus e / C everywhere. The sum is f32 (f64 for f64 logits),
// computed as a log-sum-exp; the mean over no sample is NaN. The backward writes over logits that
// nobody else holds: pass them as an rvalue. Throws ShapeError, DtypeError, UsageError (smoothing
// outside [0, 1]) and IndexError for a label outside [0, C): at once on the cpu, at the next wait
// on other devices.
WT_API Loss cross_entropy(const In& logits, const In& labels,
                          const CrossEntropyOptions& options = {});
// sum((input - target)^2), its weight the number of elements. Shapes must be equal (ShapeError):
// nothing broadcasts. 16-bit operands are summed in f32.
WT_API Loss mse_loss(const In& input, const In& target);

}  // namespace wt
