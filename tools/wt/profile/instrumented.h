#pragma once

namespace wt::tools {

// Goes on as the program wt_race beside this one, whose kernels on simt count what they access,
// with the same command line. Nothing where this one's do; UsageError if there is no such program.
void become_instrumented();

}  // namespace wt::tools
