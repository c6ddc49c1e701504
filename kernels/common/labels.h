// Labels on the host: of a loss's rows, checked.
#pragma once
#include "warptape/core/mailbox.h"
#include "warptape/core/types.h"

namespace wt {

// The class of row `row`. A label outside [0, classes) is reported, the first one of the step, and
// stands for class 0 until the mailbox is read.
template <class Args>
i64 class_of_label(const Args& a, i64 row, i64 label, i64 classes) {
  if (label >= 0 && label < classes) return label;
  if (a.mailbox && a.mailbox->raised == 0)
    *a.mailbox = {i32(MailboxCode::label_out_of_range), a.op_id, row, label, classes};
  return 0;
}

}  // namespace wt
