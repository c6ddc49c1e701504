// Letters of ASCII as lines, for pictures that are drawn without a font. Internal.
#pragma once
#include <string_view>
#include <vector>

#include "warptape/core/chart.h"

namespace wt::chart {

// On a grid whose capitals are 12 high: the base line is 0, small letters have 8, tails go to -4.
constexpr double kCapital = 12;
struct Glyph {
  double width = 0;
  std::vector<Points> strokes;  // upwards
};
// A box for what is no printable character of ASCII.
Glyph glyph_of(char32_t c);
// Widths and the gaps between, of UTF-8 text.
double text_length(std::string_view text);
// The characters of UTF-8 text; a byte that belongs to none is one by itself.
std::vector<char32_t> characters_of(std::string_view text);

constexpr double kLetterGap = 3;

}  // namespace wt::chart
