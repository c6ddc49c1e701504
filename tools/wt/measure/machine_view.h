// How `wt info --watch` shows what a machine does.
#pragma once
#include <string>

#include "warptape/core/machine_state.h"

namespace wt::tools {

// A table for a terminal: the processor, each GPU with its processes, this process's memory.
std::string machine_table(const machine::State& s);
// The same in one line, without its end.
std::string machine_line(const machine::State& s);
// One JSON object; what nobody tells is null.
std::string machine_json(const machine::State& s);

}  // namespace wt::tools
