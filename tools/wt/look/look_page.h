// The page of `wt look`.
#pragma once
#include <string>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

// One file without network or script, light and dark: for each kernel totals, the source with
// counts at its lines, its accesses drawn, its warps between barriers, its occupancy and machine
// code; and the roofline of all. All texts are escaped.
std::string look_page(const Look& look, const FindSource& find);

}  // namespace wt::tools
