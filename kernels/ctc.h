// Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber 2006).
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// T steps, N samples, C classes; `blank` is one of them. Sample n has T_n steps and L_n labels, and
// X = 2 L_n + 1 states: blank, label, blank, ..., blank. A path stays in its state, goes to the
// next one, or from a label over the blank to another label; it begins in one of the first two
// states and ends in one of the last two. With y = log_probs and l(s) the class of state s:
//   alpha[t][s] = y[t][l(s)] + log(sum of exp(alpha[t - 1][s']) over the states s' before s)
//   loss        = -log(exp(alpha[T_n - 1][X - 1]) + exp(alpha[T_n - 1][X - 2])), inf without a path
//   scale       = 1 / max(L_n, 1) with divide_by_length, else 1
// log_probs: [T, N, C], any strides, f64 f32 f16 bf16. targets: i64, [N, L] of any strides (L the
// longest at least) or [sum of L_n]; input_lengths, target_lengths: i64, [N], any strides, checked:
// 0 <= T_n <= T, 0 <= L_n. losses: [N], alpha: [N, T, 2 L + 1] with L the longest, contiguous, in
// the dtype that log_probs accumulate in (f64 for f64, else f32); alpha is defined for t < T_n and
// the sample's states. loss_sum: 0-d, their dtype: the sum of scale * loss in order, without
// infinite ones for zero_infinity. A label outside [0, C) raises the mailbox and counts as class 0.
struct CtcForwardArgs {
  View loss_sum, losses, alpha;
  View log_probs, targets, input_lengths, target_lengths;
  i64 blank = 0;
  bool divide_by_length = true, zero_infinity = false;
  MailboxRecord* mailbox = nullptr;  // of the device; null: bad labels are not reported
  u32 op_id = 0;
  i64 bytes() const { return log_probs.bytes() + alpha.bytes() + targets.bytes(); }
  i64 flops() const { return 8 * alpha.numel(); }
};
WT_CONTRACT(ctc_forward, CtcForwardArgs);

// gx[t][n][c] = -grad * scale * sum over states s of class c of exp(alpha[t][s] + beta[t][s] +
// loss), where exp(beta[t][s]) is the probability of all ways on from state s after step t; 0 for t
// >= T_n. This is the derivative with respect to log_probs as they are, whatever they sum to. Of an
// infinite loss it is NaN, with zero_infinity 0. grad: 0-d, the gradient of loss_sum, in its dtype.
// gx: any strides, log_probs' dtype. The others as above.
struct CtcBackwardArgs {
  View gx;
  View grad, losses, alpha;
  View log_probs, targets, input_lengths, target_lengths;
  i64 blank = 0;
  bool divide_by_length = true, zero_infinity = false;
  i64 bytes() const { return 2 * log_probs.bytes() + alpha.bytes() + targets.bytes(); }
  i64 flops() const { return 16 * alpha.numel(); }
};
WT_CONTRACT(ctc_backward, CtcBackwardArgs);

}  // namespace wt
