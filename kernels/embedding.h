// Rows of a table by index, and the gradient of the table.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// out[i..., :] = weight[indices[i...], :]; zeros where the index is zero_index.
// weight: [V, D], any strides, any dtype. indices: i64 or i32, any shape and strides. out: the
// shape of indices with D appended, contiguous, weight's dtype.
// An index outside [0, V) raises the mailbox and reads row 0.
struct EmbeddingForwardArgs {
  View out;
  View weight, indices;
  i64 zero_index = -1;               // -1: none
  MailboxRecord* mailbox = nullptr;  // of the device; null: bad indices are not reported
  u32 op_id = 0;
  i64 bytes() const { return 2 * out.bytes() + indices.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(embedding_forward, EmbeddingForwardArgs);

// gweight[v, :] = sum of gout[i, :] over the positions i with indices[i] == v, in f32 (f64 for f64)
// and in an order that depends on the indices alone; with `accumulate` that sum is added to what is
// there. Rows nobody looked up get zero (stay, with `accumulate`). Positions whose index is
// skip_index, or outside [0, V), add nothing.
// gweight: [V, D], contiguous, f64 f32 f16 bf16. gout: like out above, any strides.
struct EmbeddingBackwardArgs {
  View gweight;
  View gout, indices;
  i64 skip_index = -1;  // -1: none
  bool accumulate = false;
  i64 bytes() const { return gweight.bytes() + gout.bytes() + indices.bytes(); }
  i64 flops() const { return gout.numel(); }
};
WT_CONTRACT(embedding_backward, EmbeddingBackwardArgs);

}  // namespace wt
