// What readers of TFRecord files share. Internal.
#pragma once
#include <string>
#include <vector>

namespace wt::data {

// The file of this name, or those that a pattern names ('*', '?', '[]' in the last part of the
// path), sorted. DataError if there is none.
std::vector<std::string> files_of_pattern(const std::string& pattern);

}  // namespace wt::data
