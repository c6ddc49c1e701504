// The user's line in errors of what takes no operand: constructors of layers and optimizers, states
// that are loaded.
#pragma once
#include <string>

#include "warptape/core/mode.h"

namespace wt {

// The last parameter of a constructor, `const CallLine& = {}`: while it runs, errors and nodes bear
// the line of the call. (A default argument lives as long as the call.)
struct [[nodiscard]] CallLine : FrameScope {
  CallLine(Frame at = Frame::here()) : FrameScope(at) {}  // NOLINT: implicit by design
};

// "\n  at net.cpp:57, in fc1": where the library was called; empty when that is not known.
WT_API std::string at_line();

}  // namespace wt
