// The first block's warps between its barriers, as a picture.
#pragma once
#include <string>

#include "warptape/core/types.h"
#include "warptape/kernels/simt/counters.h"

namespace wt::tools {

// <svg>: a row a warp, from left to right what it did until each barrier, in instructions that
// touch memory or other lanes. "" where no warp did anything. At most `phases` are drawn.
std::string phase_picture(const SimtKernelCounts& k, std::size_t phases = 48);

// Instructions of the warp that has most of them.
u32 longest_of(const SimtPhase& p);

}  // namespace wt::tools
