// Sources of kernels, by what debug information calls them.
#pragma once
#include <string>
#include <vector>

namespace wt::tools {

// The lines of the file at `path`, or at the end of that path below `folder`; none where neither is
// there.
std::vector<std::string> source_lines(const std::string& folder, const std::string& path);

// That of a number from 1; "" where there is none.
std::string line_text(const std::vector<std::string>& lines, int number);

}  // namespace wt::tools
