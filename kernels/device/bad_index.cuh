// How a kernel reports a label or index out of its range: core/mailbox.h.
#pragma once
#include "warptape/core/mailbox.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// Writes the record unless an earlier one is still there. One thread a bad value calls it.
inline __device__ void report_bad_index(MailboxRecord* box, MailboxCode code, u32 op_id,
                                        i64 position, i64 value, i64 limit) {
  // The first one in has the record to itself until the host has read it; which of several bad
  // values that is, no order says.
  if (!box || atomicCAS(&box->raised, 0, i32(code)) != 0) return;
  box->op_id = op_id;
  box->position = position;
  box->value = value;
  box->limit = limit;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
