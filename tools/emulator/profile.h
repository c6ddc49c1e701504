// What launches cost, by kernel, source line and PTX line: a table, and one HTML file with the
// source and the PTX side by side.
#pragma once
#include "exec/launch.h"

namespace emu {

// Adds a launch; `lines` are counts by instruction, as LaunchRequest::profile has filled them in.
void profile_launch(const Program::Kernel& kernel, Dim3 grid, Dim3 block,
                    const LaunchCounts& counts, const std::vector<LineCounts>& lines);
// How many instructions a kernel has, for the size of LaunchRequest::profile.
size_t profile_lines(const Program::Kernel& kernel);
// The table to stderr, and the page to `file` (new or old, never half), or rows of numbers if its
// name ends in .tsv. No launches: says so.
void profile_write(const std::string& file);

}  // namespace emu
