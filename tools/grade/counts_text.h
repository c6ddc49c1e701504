// Counts of a launch as lines of words, from the student's side to the grader's. Internal.
//
//   kernel <launches> <blocks> <threads> <barriers> <read> <written> <name>
//   access <load|store|atomic> <shared|device> <bytes> <requests> <lanes> <units> <least> <place>
//   wait <warps> <operation>
#pragma once
#include <string>
#include <vector>

#include "warptape/kernels/simt/counters.h"

namespace wt::grade {

std::string counts_text(const std::vector<SimtKernelCounts>& kernels);

}  // namespace wt::grade
