// What a launch left in memory against what is right. Internal.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/problem.h"

namespace wt::grade {

// What is wrong, and what it looks like.
enum class Wrong : u8 {
  value,      // another number
  tail,       // only at the end of rows, or of all
  unwritten,  // what lay there before the launch lies there still
  stale,      // the right result of the launch before
  nan,        // NaN where a number is right
  no_nan,     // a number where NaN is right
  rounding,   // close, but farther off than the dtype explains: 16 bits on the way
  input,      // an operand that is only read was written
  beside,     // memory next to an operand, or between its elements, was written
};

struct Fault {
  Wrong wrong = Wrong::value;
  std::string text;  // "y[3, 256] is 0.25 where 0.125 is right; 5 of 1285 elements"
};

// Images as the launch began and as it ended, the latter with canaries. `before`: the right results
// of the launch before, of each operand; empty: there was none.
std::optional<Fault> find_fault(const Problem& p, const std::vector<std::vector<u8>>& begun,
                                const std::vector<std::vector<u8>>& ended,
                                const std::vector<std::vector<double>>& before);

// The elements of what is written, of images with canaries, are the same bits.
bool same_results(const Problem& p, const std::vector<std::vector<u8>>& a,
                  const std::vector<std::vector<u8>>& b);

}  // namespace wt::grade
