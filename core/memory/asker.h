// Whom an allocation is for, beyond what profiler::Memory says. Internal.
#pragma once
#include "warptape/core/frame.h"
#include "warptape/core/op_info.h"

namespace wt::profiler {

struct Asker {
  FrameId frame = 0;                 // the user's line; 0: unknown
  const OpInfo* backward = nullptr;  // the node whose backward runs; null: none
};
// Of the innermost ranges that are open on this thread: while an observer's allocated() runs.
Asker asker();

}  // namespace wt::profiler
