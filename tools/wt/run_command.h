// What main() of `wt` calls. Apart from wt.h, whose parser takes five seconds to compile.
#pragma once

namespace wt::tools {

// The whole command; what it returns is the exit code.
int run_command(int argc, char** argv);

}  // namespace wt::tools
