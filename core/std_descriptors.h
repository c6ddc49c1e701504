// Descriptors 0, 1 and 2 where the parent has closed them.
#pragma once
#include "warptape/core/macros.h"

namespace wt {

// The first thing in main() of a program that writes files. A process may be started with standard
// descriptors closed (`prog <&- 2>&-`, some daemons and job systems); the next files it opens get
// their numbers, and progress, warnings and results are then written into a checkpoint. This holds
// those numbers, so that nothing else gets them. What was closed stays of no use: reading or
// writing it fails with EBADF as before, so a lost result is still noticed. Open ones are left
// alone.
WT_API void hold_standard_descriptors() noexcept;

}  // namespace wt
