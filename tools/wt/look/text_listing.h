// The source with counts at its lines, for a terminal.
#pragma once
#include <string>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

// A kernel's accesses and waits beside its lines. Of a file that `find` does not find: the places
// without their text.
std::string text_listing(const SimtKernelCounts& k, const FindSource& find);

}  // namespace wt::tools
