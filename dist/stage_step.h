// One update of a model whose parameters lie on several ranks.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/dist/communicator.h"
#include "warptape/optim/optimizer.h"

namespace wt::dist {

// What agree_on_step() found.
struct StageStep {
  optim::StepOptions options{};  // for opt.step(): grad_factor and skip
  Tensor grad_norm{};  // of the mean loss's gradient over all ranks, before clipping; 0-d, f64
};

// What every rank's optimizer steps with, when each has other parameters (Pipeline), their
// gradients are those of loss.sum, and `loss` is the same on all ranks:
//   grad_norm   = sqrt(sum over ranks of |gradients|^2) / weight
//   grad_factor = min(1, max_norm / (grad_norm + 1e-6)) / weight; without max_norm (0): 1 / weight
//   skip        = a loss or norm that is not finite, or a bad label or token on any rank.
// One all_reduce of two numbers; no device is waited for. The values have the same bits on every
// rank, so that all step or none does. `opt`: null on a rank without parameters. As by every raw
// loop, buffers and random state of a skipped step are not taken back. Every rank calls it. Throws
// UsageError for max_norm below 0.
WT_API StageStep agree_on_step(optim::Optimizer* opt, Communicator& comm, const Loss& loss,
                               double max_norm = 0, Frame at = Frame::here());

// --- internal ---
namespace detail {
// [1], f64, on the parameters' device: 1 where that has met a bad label or index.
Tensor mailbox_raised(const optim::Optimizer& opt);
}  // namespace detail

}  // namespace wt::dist
