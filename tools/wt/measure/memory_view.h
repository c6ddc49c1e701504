// How `wt memory` shows what a training takes: tables and a chart of characters; a picture.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/memory_use.h"

namespace wt::tools {

// Bytes by category: predicted, and measured unless null. The columns add up.
std::string category_table(const MemoryUse& predicted, const MemoryUse* measured);
// What is there at the peak: activations by operator, then the places that hold most of anything,
// `rows` of each.
std::string holder_tables(const MemoryUse& use, int rows);
// What the rules about saved tensors have spared in a step; those that spared nothing in one line.
std::string spared_table(const memory::SavedByRule& spared);
// Levels as a stack of letters, one a category (p parameter, g gradient, ...), over allocations and
// releases; bytes upwards.
std::string draw_timeline(const std::vector<memory::Level>& levels, int columns = 72,
                          int rows = 16);
// The same as an SVG file: a curve for all bytes and one for each category that had any.
// CheckpointError if it cannot be written.
void write_timeline(const std::string& path, const std::string& title,
                    const std::vector<memory::Level>& levels);

}  // namespace wt::tools
