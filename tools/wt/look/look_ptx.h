// The launch of `wt look` once more, on the emulated device. Internal to tools/wt/look/.
#pragma once
#include <string>

#include "warptape/tools/wt/look/look.h"
#include "warptape/tools/wt/look/look_problem.h"

namespace wt::tools {

// Whether this process is the one that is asked to launch on the emulated device, and no more.
bool is_ptx_launch();
// The launch that it makes: the same operands on cuda. The kernel may not take them there.
void launch_for_ptx(const LookRequest& r, const Wanted& w);
// Fills in ptx or no_ptx by starting such a process of this program, with its own arguments.
void add_ptx(Look& look);

}  // namespace wt::tools
