// "Did you mean ...?" for options, recipes, devices and operators. Internal.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/core/macros.h"

namespace wt {

// Edits (insert, delete, replace, swap two neighbours) that turn one word into the other, without
// regard to case.
WT_API int edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` was most likely meant to be: at most a third of its letters differ, or
// it is the beginning of exactly one. Empty if none is near. The first of several equally near.
WT_API std::string_view nearest(std::string_view word,
                                std::span<const std::string_view> candidates);

// "; did you mean 'charlm'?", or "" if nothing is near.
template <class Range>
std::string did_you_mean(std::string_view word, const Range& candidates) {
  std::vector<std::string_view> views(std::begin(candidates), std::end(candidates));
  const std::string_view best = nearest(word, views);
  return best.empty() ? "" : "; did you mean '" + printable(best) + "'?";
}

}  // namespace wt
