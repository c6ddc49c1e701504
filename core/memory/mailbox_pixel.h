// A code of the mailbox that kernels of images alone need. Apart from core/mailbox.h, which every
// kernel includes.
#pragma once
#include "warptape/core/mailbox.h"

namespace wt {

// A pixel outside [0, 1]: `value` has the bits of the float, `limit` is 1. check_mailbox() throws
// UsageError for it.
inline constexpr MailboxCode kPixelOutOfRange = MailboxCode(4);

}  // namespace wt
