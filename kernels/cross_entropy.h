// Cross-entropy of logits and class labels, fused: probabilities are never stored.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Per row (all axes but `axis`), with C classes, m = max(x), s = sum(exp(x - m)), e = smoothing:
//   nll  = log(s) + m - x[label]
//   loss = (1 - e) * nll + e * (log(s) + m - mean(x))
// loss_sum = sum of loss over the rows whose label is not ignore_index, weight = their number; both
// 0-d, in the dtype that logits accumulate in (f64 for f64, else f32).
// logits: any strides, f64 f32 f16 bf16. labels: i64, the shape of logits without `axis`, any
// strides. stats (the same dtype as loss_sum, [2, rows], contiguous) is saved for the backward: m,
// then log(s); undefined for ignored rows.
// A label outside [0, C) that is not ignore_index raises the mailbox and counts as class 0.
struct CrossEntropyForwardArgs {
  View loss_sum, weight, stats;
  View logits, labels;
  int axis;
  i64 ignore_index = -100;
  double smoothing = 0;
  MailboxRecord* mailbox = nullptr;  // of the device; null: bad labels are not reported
  u32 op_id = 0;
  i64 bytes() const { return logits.bytes() + labels.bytes() + stats.bytes(); }
  i64 flops() const { return 4 * logits.numel(); }
};
WT_CONTRACT(cross_entropy_forward, CrossEntropyForwardArgs);

// glogits = grad * (exp(x - m - log(s)) - (1 - e) * [class == label] - e / C), 0 for ignored rows.
// grad: 0-d, the gradient of loss_sum, in its dtype, in device memory. glogits may be logits. Bad
// labels count as class 0 and are not reported again.
struct CrossEntropyBackwardArgs {
  View glogits;
  View grad, stats;
  View logits, labels;
  int axis;
  i64 ignore_index = -100;
  double smoothing = 0;
  i64 bytes() const { return glogits.bytes() + logits.bytes() + labels.bytes() + stats.bytes(); }
  i64 flops() const { return 4 * logits.numel(); }
};
WT_CONTRACT(cross_entropy_backward, CrossEntropyBackwardArgs);

}  // namespace wt
