// The user's lines that this thread has come from, for messages of errors.
#pragma once
#include "warptape/core/frame.h"

namespace wt {

// Where a module was called; a list through the stack, the innermost call first.
struct ModuleCall {
  Frame at;
  const ModuleCall* outer;
};
extern constinit thread_local const ModuleCall* module_call;

}  // namespace wt
