// A student's kernel inside of the real program. Internal.
#pragma once
#include "warptape/tools/wt/lab/lab.h"
#include "warptape/tools/wt/lab/outcome.h"

namespace wt::labs {

// After a check that passed: compiles the file as a shared object and runs the lab's command of wt
// with it (WT_KERNEL_FILE), whose exit code it gives. The program is not confined.
int train_with(const Lab& lab, const Outcome& checked);

}  // namespace wt::labs
