// Names chosen by pattern. Internal.
#pragma once
#include <string_view>

namespace wt::nn {

// Does the whole name fit? '*' stands for any characters, dots and none too, '?' for one; all
// others for themselves: "layers.*.weight", "*bias".
constexpr bool fits_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.size(), resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star < pattern.size()) {  // the last star takes one more character
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace wt::nn
