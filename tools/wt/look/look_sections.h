// The sections of `wt look`'s page about one kernel.
#pragma once
#include <string>

#include "warptape/core/chart.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

std::string totals_card(const SimtKernelCounts& k);
std::string occupancy_card(const LookKernel& k);
// `prefix`: of the ids of this kernel's pictures, to which the listing's counts lead.
std::string source_cards(const SimtKernelCounts& k, const FindSource& find,
                         const std::string& prefix);
std::string pattern_card(const SimtKernelCounts& k, const FindSource& find,
                         const std::string& prefix);
std::string phase_card(const SimtKernelCounts& k);
std::string code_card(const LookKernel& k);

}  // namespace wt::tools
