// Negative log-likelihoods of distributions whose parameters a model gives. Both return Loss{sum,
// weight}, whose mean is what PyTorch returns by default, or with `unreduced` the loss of each
// element. They refuse unequal shapes (ShapeError) instead of broadcasting; operands promote,
// 16-bit ones are computed and summed in f32.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

struct PoissonNllOptions {
  bool log_input = true;  // the input is the logarithm of the rate
  bool full = false;      // with Stirling's term t log(t) - t + log(2 pi t) / 2 of targets above 1
  double eps = 1e-8;      // added to a rate before its logarithm
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of exp(input) - target input, or of input - target log(input + eps) for rates. Its weight
// is the number of elements. Throws UsageError unless eps > 0.
WT_API Loss poisson_nll_loss(const In& input, const In& target,
                             const PoissonNllOptions& options = {});
WT_API Tensor poisson_nll_loss(const In& input, const In& target, Unreduced,
                               const PoissonNllOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  // with log(2 pi) / 2
  double eps = 1e-6;  // least variance
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of (log(v) + (input - target)^2 / v) / 2 with v = max(var, eps), which the gradient
// passes through as if v were var. var has the input's shape, or 1 in place of its last axis, or
// lacks that axis. Its weight is the number of elements. Throws UsageError unless eps > 0, and on
// the cpu for a negative variance (elsewhere it counts as eps).
WT_API Loss gaussian_nll_loss(const In& input, const In& target, const In& var,
                              const GaussianNllOptions& options = {});
WT_API Tensor gaussian_nll_loss(const In& input, const In& target, const In& var, Unreduced,
                                const GaussianNllOptions& options = {});

}  // namespace wt
