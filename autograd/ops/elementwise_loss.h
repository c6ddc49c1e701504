// Losses of one number beside another. All return Loss{sum, weight}, whose mean is what PyTorch
// returns by default, or with `unreduced` the loss of each element. They refuse unequal shapes
// (ShapeError) instead of broadcasting. Operands promote; 16-bit ones are computed and summed in
// f32.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

// sum(|input - target|), its weight the number of elements. The gradient is 0 where both are equal.
WT_API Loss l1_loss(const In& input, const In& target);
WT_API Tensor l1_loss(const In& input, const In& target, Unreduced);

struct SmoothL1Options {
  double beta = 1;
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of 0.5 d^2 / beta where |d| < beta and of |d| - 0.5 beta elsewhere, with d = input -
// target (Girshick 2015, arXiv:1504.08083); its weight is the number of elements. With beta 0 it is
// l1_loss. Throws UsageError unless beta >= 0.
WT_API Loss smooth_l1_loss(const In& input, const In& target, const SmoothL1Options& options = {});
WT_API Tensor smooth_l1_loss(const In& input, const In& target, Unreduced,
                             const SmoothL1Options& options = {});

struct HuberOptions {
  double delta = 1;
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of 0.5 d^2 where |d| < delta and of delta (|d| - 0.5 delta) elsewhere, with d = input -
// target (Huber 1964); its weight is the number of elements. Throws UsageError unless delta > 0.
WT_API Loss huber_loss(const In& input, const In& target, const HuberOptions& options = {});
WT_API Tensor huber_loss(const In& input, const In& target, Unreduced,
                         const HuberOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight{};  // of each element: broadcasts to the input's shape; no gradient
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of -weight (target log(input) + (1 - target) log(1 - input)) of probabilities; its weight
// is the number of elements, whatever the weights. Logarithms are at least -100, and the gradient's
// denominator input (1 - input) at least 1e-12, as in PyTorch. On the cpu an input outside [0, 1]
// throws UsageError; elsewhere it gives NaN.
WT_API Loss binary_cross_entropy(const In& input, const In& target,
                                 const BinaryCrossEntropyOptions& options = {});
WT_API Tensor binary_cross_entropy(const In& input, const In& target, Unreduced,
                                   const BinaryCrossEntropyOptions& options = {});

struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight{};      // of each element: broadcasts to the input's shape; no gradient
  Tensor pos_weight{};  // of the positive answers, broadcasts likewise: mostly [classes]
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// binary_cross_entropy of sigmoid(input), computed without the sigmoid, so that large logits lose
// nothing: the sum of weight ((1 - target) x + (1 + (pos_weight - 1) target) (log(1 + exp(-|x|)) +
// max(-x, 0))). Its weight is the number of elements, whatever the weights.
WT_API Loss binary_cross_entropy_with_logits(
    const In& input, const In& target, const BinaryCrossEntropyWithLogitsOptions& options = {});
WT_API Tensor
binary_cross_entropy_with_logits(const In& input, const In& target, Unreduced,
                                 const BinaryCrossEntropyWithLogitsOptions& options = {});

struct KlDivOptions {
  bool log_target = false;  // the target holds logarithms too
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Kullback-Leibler divergence: the sum of target (log(target) - input) for an input of
// log-probabilities, 0 where the target is 0. Its weight is the size of the first axis (1 without
// axes): the mean is PyTorch's reduction="batchmean".
WT_API Loss kl_div(const In& input, const In& target, const KlDivOptions& options = {});
WT_API Tensor kl_div(const In& input, const In& target, Unreduced,
                     const KlDivOptions& options = {});

}  // namespace wt
