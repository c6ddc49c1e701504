#include "warptape/core/terminal/text_chart.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/types.h"

namespace wt::chart {
namespace {

constexpr int kLabel = 8;  // characters of the scale, before the axis
constexpr char kLetters[] = "*+ox#@%&";
// Of 256, to be told apart on a dark and on a light background.
constexpr int kHues[] = {33, 208, 35, 135, 37, 205, 178, 245};

std::string colored(const std::string& text, std::size_t series) {
  return "\x1b[38;5;" + std::to_string(kHues[series % std::size(kHues)]) + "m" + text + "\x1b[0m";
}

// Dots that are joined into characters.
class Dots {
 public:
  Dots(int columns, const TextStyle& style, bool letters)
      : columns_(columns),
        rows_(style.rows),
        style_(style),
        letters_(letters),
        cells_(std::size_t(columns) * std::size_t(style.rows)) {}
  int width() const { return columns_ * (braille() ? 2 : 1); }
  int height() const { return rows_ * (braille() ? 4 : letters_ ? 1 : 2); }

  void line(int x0, int y0, int x1, int y1, std::size_t series) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i)
      set(x0 + int(std::lround(double(x1 - x0) * i / steps)),
          y0 + int(std::lround(double(y1 - y0) * i / steps)), series);
  }
  std::string row(int r) const {
    std::string out, run;  // of one series
    std::size_t series = 0;
    const auto end_run = [&] {
      if (!run.empty()) out += style_.color ? colored(run, series) : run;
      run.clear();
    };
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[std::size_t(r) * std::size_t(columns_) + std::size_t(c)];
      if (cell.bits == 0 || cell.series != series) end_run();
      series = cell.series;
      (cell.bits ? run : out) += character(cell);
    }
    end_run();
    return out;
  }

 private:
  struct Cell {
    unsigned bits = 0;
    std::size_t series = 0;  // the last that was drawn there
  };
  bool braille() const { return style_.utf8 && !letters_; }
  std::string character(const Cell& cell) const {
    const unsigned bits = cell.bits;
    if (bits == 0) return " ";
    if (letters_) return {kLetters[cell.series % (sizeof kLetters - 1)]};
    if (!style_.utf8) return {" '.:"[bits]};
    return {char(0xE2), char(0xA0 | bits >> 6), char(0x80 | (bits & 63))};  // U+2800 and the dots
  }
  void set(int x, int y, std::size_t series) {
    static constexpr u8 kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    x = std::clamp(x, 0, width() - 1);
    y = std::clamp(y, 0, height() - 1);
    const int c = braille() ? x / 2 : x, r = braille() ? y / 4 : letters_ ? y : y / 2;
    Cell& cell = cells_[std::size_t(r) * std::size_t(columns_) + std::size_t(c)];
    cell.bits |= braille() ? kBraille[y % 4][x % 2] : u8(1 << (letters_ ? 0 : y % 2));
    cell.series = series;
  }
  int columns_, rows_;
  TextStyle style_;
  bool letters_;
  std::vector<Cell> cells_;
};

std::string right_aligned(std::string text, int width) {
  text = text.substr(0, std::size_t(std::max(width, 0)));
  return std::string(std::size_t(std::max(width, 0)) - text.size(), ' ') + text;
}

// Outside there is nothing to see; a number that no int has must not be made one.
int dot_at(double place, int size) {
  return int(std::lround(std::clamp(place, -1.0, double(size))));
}

void draw_series(Dots& dots, const Layout& layout, const Points& points, std::size_t series) {
  bool joined = false;
  int x = 0, y = 0;
  for (const auto& [px, py] : thin_out(points, std::size_t(dots.width()))) {
    const bool there = drawable(px) && drawable(py) && (!layout.y.logarithmic || py > 0) &&
                       (!layout.x.logarithmic || px > 0);
    if (there) {
      const int to_x = dot_at(layout.x.place(px), dots.width());
      const int to_y = dot_at(layout.y.place(py), dots.height());
      dots.line(joined ? x : to_x, joined ? y : to_y, to_x, to_y, series);
      x = to_x, y = to_y;
    }
    joined = there;
  }
}

bool by_letters(std::size_t series, const TextStyle& style) { return series > 1 && !style.color; }

}  // namespace

std::vector<std::string> text_chart(const Chart& chart, const TextStyle& style) {
  const int room = style.columns - kLabel - 1;
  if (room < 10 || style.rows < 2 || !has_points(chart)) return {};
  Dots dots(room, style, by_letters(chart.series.size(), style));
  const Layout layout = lay_out(chart, {.width = double(dots.width() - 1),
                                        .height = double(dots.height() - 1),
                                        .left = 0,
                                        .right = 0,
                                        .top = 0,
                                        .bottom = 0});
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    draw_series(dots, layout, chart.series[i].points, i);
  std::vector<std::string> out;
  for (int r = 0; r < style.rows; ++r) {
    std::string label;
    if (r == 0) label = short_number(layout.y.high);
    if (r == style.rows - 1) label = short_number(layout.y.low);
    out.push_back(right_aligned(label, kLabel - 1) + (style.utf8 ? " │" : " |") + dots.row(r));
  }
  const std::string first = short_number(layout.x.low) + " ";
  out.push_back(std::string(kLabel + 1, ' ') + first +
                right_aligned(chart.x + (chart.x.empty() ? "" : " ") + short_number(layout.x.high),
                              room - int(first.size())));
  return out;
}

std::string text_key(std::size_t series, std::size_t all, const TextStyle& style) {
  if (by_letters(all, style)) return {kLetters[series % (sizeof kLetters - 1)]};
  const std::string key = style.utf8 ? "⠤⠤" : "--";
  return style.color ? colored(key, series) : key;
}

}  // namespace wt::chart
