#include "warptape/tools/wt/reports/loss_curve.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "warptape/core/terminal/progress_head.h"

namespace wt::tools {
namespace {

constexpr int kLabel = 8;  // characters of the scale, before the axis

// Dots that are joined into characters.
class Dots {
 public:
  Dots(int columns, int rows, bool utf8)
      : columns_(columns), rows_(rows), utf8_(utf8), cells_(size_t(columns) * size_t(rows)) {}
  int width() const { return columns_ * (utf8_ ? 2 : 1); }
  int height() const { return rows_ * (utf8_ ? 4 : 2); }

  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i)
      set(x0 + int(std::lround(double(x1 - x0) * i / steps)),
          y0 + int(std::lround(double(y1 - y0) * i / steps)));
  }
  std::string row(int r) const {
    std::string out;
    for (int c = 0; c < columns_; ++c) {
      const unsigned bits = cells_[size_t(r) * size_t(columns_) + size_t(c)];
      if (!utf8_)
        out += " '.:"[bits];
      else if (bits == 0)
        out += ' ';
      else  // U+2800 and the dots
        out += {char(0xE2), char(0xA0 | bits >> 6), char(0x80 | (bits & 63))};
    }
    return out;
  }

 private:
  void set(int x, int y) {
    static constexpr u8 kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    x = std::clamp(x, 0, width() - 1);
    y = std::clamp(y, 0, height() - 1);
    const int c = utf8_ ? x / 2 : x, r = utf8_ ? y / 4 : y / 2;
    cells_[size_t(r) * size_t(columns_) + size_t(c)] |=
        utf8_ ? kBraille[y % 4][x % 2] : u8(1 << y % 2);
  }
  int columns_, rows_;
  bool utf8_;
  std::vector<u8> cells_;
};

std::string right_aligned(std::string text, int width) {
  text = text.substr(0, size_t(width));
  return std::string(size_t(width) - text.size(), ' ') + text;
}

}  // namespace

std::vector<std::string> LossCurve::lines(int columns, int rows, bool utf8) const {
  const chart::Chart chart{.title = {}, .series = {{"loss", "", points_}}};
  const int room = columns - kLabel - 1;
  if (room < 10 || rows < 2 || !chart::has_points(chart)) return {};
  Dots dots(room, rows, utf8);
  const chart::Layout layout = chart::lay_out(chart, {.width = double(dots.width() - 1),
                                                      .height = double(dots.height() - 1),
                                                      .left = 0,
                                                      .right = 0,
                                                      .top = 0,
                                                      .bottom = 0});
  bool joined = false;
  int x = 0, y = 0;
  for (const auto& [step, loss] : chart::thin_out(points_, size_t(dots.width()))) {
    const bool there = std::isfinite(loss) && (!layout.y.logarithmic || loss > 0);
    if (there) {
      const int to_x = int(std::lround(layout.x.place(step)));
      const int to_y = int(std::lround(layout.y.place(loss)));
      dots.line(joined ? x : to_x, joined ? y : to_y, to_x, to_y);
      x = to_x, y = to_y;
    }
    joined = there;
  }
  std::vector<std::string> out;
  const double low = layout.y.low, high = layout.y.high;
  for (int r = 0; r < rows; ++r) {
    std::string label;
    if (r == 0) label = chart::short_number(high);
    if (r == rows - 1) label = chart::short_number(low);
    out.push_back(right_aligned(label, kLabel - 1) + (utf8 ? " │" : " |") + dots.row(r));
  }
  const std::string first = chart::short_number(layout.x.low) + " ";
  out.push_back(std::string(kLabel + 1, ' ') + first +
                right_aligned("step " + chart::short_number(layout.x.high),
                              std::max(room - int(first.size()), 0)));
  return out;
}

LiveCurve::LiveCurve() {
  const ProgressStyle style = wt::detail::style_of_stderr();
  terminal_ = style != ProgressStyle::lines;
  utf8_ = style == ProgressStyle::bar;
}

void LiveCurve::add(i64 step, double loss) {
  curve_.add(step, loss);
  using namespace std::chrono;
  const double now = duration<double>(steady_clock::now().time_since_epoch()).count();
  if (!terminal_ || now - drawn_at_ < 0.2) return;
  drawn_at_ = now;
  draw();
}

void LiveCurve::draw() {
  if (!terminal_) return;
  // Room for the bar, a message and the summary that follows.
  const wt::detail::TerminalSize size = wt::detail::stderr_size();
  wt::detail::set_progress_head(curve_.lines(size.columns, std::min(10, size.rows - 6), utf8_));
}

}  // namespace wt::tools
