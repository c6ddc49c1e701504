// The negative log-likelihood of class labels, from log-probabilities.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Per row (all axes but `axis`) whose label is not ignore_index:
//   loss_sum += -w * x[label]    weight += w    w = class_weights[label], 1 without them
// where w is 0 x is not read.
// loss_sum, weight: 0-d, in the dtype that x accumulates in (f64 for f64, else f32; summed in
// double). log_probs (x): any strides, f64 f32 f16 bf16. labels: i64, the shape of x without
// `axis`, any strides. class_weights: [C], loss_sum's dtype, any stride; may be absent.
// A label outside [0, C) that is not ignore_index raises the mailbox and counts as class 0.
struct NllForwardArgs {
  View loss_sum, weight;
  View log_probs, labels, class_weights;
  int axis;
  i64 ignore_index = -100;
  MailboxRecord* mailbox = nullptr;  // of the device; null: bad labels are not reported
  u32 op_id = 0;
  i64 bytes() const { return labels.numel() * (8 + item_size(log_probs.dtype())); }
  i64 flops() const { return 2 * labels.numel(); }
};
WT_CONTRACT(nll_forward, NllForwardArgs);

// gx = -grad * w at the label of a row that counts, else 0. grad: 0-d, the gradient of loss_sum, in
// its dtype. gx: any strides. Bad labels count as class 0 and are not reported again.
struct NllBackwardArgs {
  View gx;
  View grad, labels, class_weights;
  int axis;
  i64 ignore_index = -100;
  i64 bytes() const { return gx.bytes() + labels.bytes(); }
  i64 flops() const { return labels.numel(); }
};
WT_CONTRACT(nll_backward, NllBackwardArgs);

}  // namespace wt
