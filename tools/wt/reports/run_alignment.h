// Which result of one run is which of another's: the same operator at the same place, though the
// other run has casts that this one has not, lines that moved, or other kernels.
#pragma once
#include <string>
#include <vector>

#include "warptape/autograd/recording.h"

namespace wt::tools {

struct AlignedPair {
  i64 a = -1, b = -1;  // of Step::entries; -1: only the other run has it
};

// In order: each entry of both steps once, and the pairs in the order of both. Entries that agree
// in kind, direction, operator, module, line, index and shape are paired first, the first such of
// `a` with the first of `b`, as many as keep the order; what is left between two pairs then without
// the line, without the shape, and by operator and direction alone.
std::vector<AlignedPair> align(const record::Step& a, const record::Step& b);

}  // namespace wt::tools
