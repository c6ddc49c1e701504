// Losses over samples: all return Loss{sum, weight}, or with `unreduced` the loss of each.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

struct CrossEntropyOptions {
  i64 ignore_index = -100;
  double label_smoothing = 0;
  Tensor weight{};  // of each class, [C]; no gradient
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Cross-entropy of unnormalised logits [N, C], [N, C, d...] or [C] and i64 labels [N], [N, d...]
// or []. Samples whose label is ignore_index count neither in sum nor in weight. With smoothing e
// the target is (1 - e) at the label plus e / C everywhere. A class weight multiplies what the
// target gives to its class, and the loss's weight is then the sum of the weights of the labels.
// The sum is f32 (f64 for f64 logits), computed as a log-sum-exp; the mean over no sample is NaN.
// The backward writes over logits that nobody else holds: pass them as an rvalue.
//
// A floating target of the logits' shape holds the probabilities of the classes instead: the sum of
// -weight target log_softmax(logits), whose weight is the number of samples whatever the class
// weights; smoothing makes the target (1 - e) target + e / C. ignore_index must be negative then.
//
// With `unreduced` the loss of each sample: the shape of the labels, for probabilities that of the
// logits without the axis of the classes.
//
// Throws ShapeError, DtypeError, UsageError (smoothing outside [0, 1]) and IndexError for a label
// outside [0, C): at once on the cpu, at the next wait on other devices.
WT_API Loss cross_entropy(const In& logits, const In& labels,
                          const CrossEntropyOptions& options = {});
WT_API Tensor cross_entropy(const In& logits, const In& labels, Unreduced,
                            const CrossEntropyOptions& options = {});

struct NllOptions {
  i64 ignore_index = -100;
  Tensor weight{};  // of each class, [C]; no gradient
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Negative log-likelihood of log-probabilities [N, C], [N, C, d...] or [C] (log_softmax's) and i64
// labels [N], [N, d...] or []: the sum of -w log_probs[label], whose weight is the sum of w, with w
// the label's class weight or 1. Samples whose label is ignore_index do not count; the mean over no
// sample is NaN. 16-bit operands are summed in f32. Throws as cross_entropy does.
WT_API Loss nll_loss(const In& log_probs, const In& labels, const NllOptions& options = {});
WT_API Tensor nll_loss(const In& log_probs, const In& labels, Unreduced,
                       const NllOptions& options = {});
// sum((input - target)^2), its weight the number of elements. Shapes must be equal (ShapeError):
// nothing broadcasts. 16-bit operands are summed in f32.
WT_API Loss mse_loss(const In& input, const In& target);
WT_API Tensor mse_loss(const In& input, const In& target, Unreduced);

}  // namespace wt
