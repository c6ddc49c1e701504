// Charts in characters, for a terminal. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/chart.h"

namespace wt::chart {

struct TextStyle {
  int columns = 80, rows = 10;
  bool utf8 = true;
  bool color = false;  // of 256, by escape sequences
};
// `rows` lines of curves, with y's scale on the left, and one of x; each at most `columns`
// characters wide. Braille has 2 x 4 dots a character, ASCII 1 x 2; of several series without
// colours each has a letter. What is not finite leaves a gap. Empty where there is nothing to
// draw, or no room for it.
WT_API std::vector<std::string> text_chart(const Chart& chart, const TextStyle& style);
// A key of the series' own kind: "⠤⠤", or its letter.
WT_API std::string text_key(std::size_t series, std::size_t all, const TextStyle& style);

}  // namespace wt::chart
