// The user's line in errors of what has no operand at hand: constructors of layers and optimizers,
// states that are loaded, allocations, launches.
#pragma once
#include <string>

#include "warptape/core/mode.h"

namespace wt {

// The last parameter of a constructor, `const CallLine& = {}`: while it runs, errors and nodes bear
// the line of the call. (A default argument lives as long as the call.)
struct [[nodiscard]] CallLine : FrameScope {
  CallLine(Frame at = Frame::here()) : FrameScope(at) {}  // NOLINT: implicit by design
};

// "\n  at net.cpp:57, in fc1": where the library was called, or the first operand of the operator
// that runs; empty when neither is known.
WT_API std::string at_line();

}  // namespace wt
