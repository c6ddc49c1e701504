#include "warptape/core/terminal/raster.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/terminal/strokes.h"

namespace wt::chart {
namespace {

// As the style sheet in plot.cpp has them, light and dark.
struct Scheme {
  u32 page, ink, soft, grid, series[8];
};
constexpr Scheme kSchemes[2] = {
    {0xffffff,
     0x1c2330,
     0x5b6675,
     0xe8ebef,
     {0x1f6feb, 0xc2410c, 0x15803d, 0x7c3aed, 0x0e7490, 0xbe185d, 0xa16207, 0x475569}},
    {0x12161c,
     0xe6eaf0,
     0x9aa5b4,
     0x28303b,
     {0x6cb0ff, 0xff9d5c, 0x5fd38d, 0xb79bff, 0x4fd1d9, 0xff8ac2, 0xe3c04f, 0xa9b4c4}}};
const std::vector<double> kDashes[4] = {{}, {7, 5}, {2, 4}, {10, 4, 2, 4}};

// The number behind a letter of a style "c3 d1".
int number_of(const std::string& style, char letter) {
  const std::size_t at = style.find(letter);
  return at == style.npos || at + 1 >= style.size() ? 0 : style[at + 1] - '0';
}

// The parts of a line that are drawn of it.
std::vector<Points> dashed(const Points& line, const std::vector<double>& dashes) {
  if (dashes.empty()) return {line};
  std::vector<Points> out;
  std::size_t k = 0;
  double left = dashes[0];
  Points part{line[0]};
  for (std::size_t i = 1; i < line.size(); ++i) {
    auto [x, y] = line[i - 1];
    const auto [to_x, to_y] = line[i];
    double length = std::hypot(to_x - x, to_y - y);
    while (length > left) {
      const double t = left / length;
      x += t * (to_x - x), y += t * (to_y - y);
      length -= left;
      part.emplace_back(x, y);
      if (k % 2 == 0) out.push_back(part);
      part = {{x, y}};
      k = (k + 1) % dashes.size();
      left = dashes[k];
    }
    left -= length;
    part.emplace_back(to_x, to_y);
  }
  if (k % 2 == 0) out.push_back(part);
  return out;
}

}  // namespace

struct RasterCanvas::Pen {
  u32 color;
  double width;
  double alpha = 1;
};

RasterCanvas::RasterCanvas(int width, int height, double scale, bool dark)
    : scale_(scale), dark_(dark) {
  pixels_.width = int(std::lround(width * scale)),
  pixels_.height = int(std::lround(height * scale));
  const std::size_t n = std::size_t(pixels_.width) * std::size_t(pixels_.height);
  const u32 page = kSchemes[dark].page;
  pixels_.rgb.reserve(3 * n);
  for (std::size_t i = 0; i < n; ++i)
    for (const int shift : {16, 8, 0}) pixels_.rgb.push_back(u8(page >> shift));
  coverage_.assign(n, 0);
}

void RasterCanvas::line(const char* style, double x1, double y1, double x2, double y2) {
  const Scheme& s = kSchemes[dark_];
  const bool grid = std::string_view(style) == "grid";
  stroke({{{x1, y1}, {x2, y2}}}, {grid ? s.grid : s.soft, 1, grid ? 1 : 0.6});
}

void RasterCanvas::text(const char* style, Anchor anchor, double x, double y,
                        const std::string& text) {
  const Scheme& s = kSchemes[dark_];
  const std::string_view name = style;
  const bool title = name == "title";
  const double size = title ? 15 : name == "tick" ? 11 : 12.5;
  const double unit = 0.72 * size / kCapital;  // capitals are that much of a letter's size
  const double length = unit * text_length(text);
  if (anchor != Anchor::start) x -= anchor == Anchor::end ? length : length / 2;
  std::vector<Points> strokes;
  for (const char32_t c : characters_of(text)) {
    Glyph g = glyph_of(c);
    for (Points& points : g.strokes) {
      for (auto& [px, py] : points) px = x + unit * px, py = y - unit * py;
      strokes.push_back(std::move(points));
    }
    x += unit * (g.width + kLetterGap);
  }
  stroke(strokes, {title ? s.ink : s.soft, title ? 0.11 * size : 0.09 * size});
}

void RasterCanvas::curve(const std::string& style, const std::vector<Points>& pieces) {
  std::vector<Points> drawn;
  for (const Points& piece : pieces) {
    for (Points& part : dashed(piece, kDashes[number_of(style, 'd') % 4]))
      drawn.push_back(std::move(part));
  }
  stroke(drawn, {kSchemes[dark_].series[number_of(style, 'c') % 8], 1.8});
}

void RasterCanvas::circles(const std::string& style, const Points& centres) {
  const Scheme& s = kSchemes[dark_];
  for (const auto& centre : centres) {
    Points ring;
    for (int i = 0; i <= 16; ++i) {
      const double angle = i * 3.14159265358979 / 8;
      ring.emplace_back(centre.first + 3 * std::cos(angle), centre.second + 3 * std::sin(angle));
    }
    stroke({{centre}}, {s.page, 6});
    stroke({ring}, {s.series[number_of(style, 'c') % 8], 1.6});
  }
}

void RasterCanvas::stroke(const std::vector<Points>& pieces, const Pen& pen) {
  left_ = pixels_.width, top_ = pixels_.height, right_ = bottom_ = 0;
  const double half = std::max(pen.width * scale_, 1.0) / 2;
  for (const Points& piece : pieces) {
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const auto& [x, y] = piece[i];
      const auto& [to_x, to_y] = piece[std::min(i + 1, piece.size() - 1)];
      if (i > 0 && i + 1 == piece.size()) break;  // one point alone is a dot
      if (!std::isfinite(x + y + to_x + to_y)) continue;
      cover(x * scale_, y * scale_, to_x * scale_, to_y * scale_, half);
    }
  }
  ink(pen);
}

// How much of each pixel a line with round ends covers, by the distance of its middle.
void RasterCanvas::cover(double x1, double y1, double x2, double y2, double half) {
  const double reach = half + 1;
  const auto inside = [](double v, int end) { return int(std::clamp(v, 0.0, double(end))); };
  const int left = inside(std::min(x1, x2) - reach, pixels_.width),
            right = inside(std::max(x1, x2) + reach + 1, pixels_.width),
            top = inside(std::min(y1, y2) - reach, pixels_.height),
            bottom = inside(std::max(y1, y2) + reach + 1, pixels_.height);
  const double dx = x2 - x1, dy = y2 - y1, square = dx * dx + dy * dy;
  for (int row = top; row < bottom; ++row) {
    for (int column = left; column < right; ++column) {
      const double px = column + 0.5 - x1, py = row + 0.5 - y1;
      const double t = square > 0 ? std::clamp((px * dx + py * dy) / square, 0.0, 1.0) : 0;
      const double distance = std::hypot(px - t * dx, py - t * dy);
      float& c = coverage_[std::size_t(row) * std::size_t(pixels_.width) + std::size_t(column)];
      c = std::max(c, float(std::clamp(half + 0.5 - distance, 0.0, 1.0)));
    }
  }
  left_ = std::min(left_, left), right_ = std::max(right_, right);
  top_ = std::min(top_, top), bottom_ = std::max(bottom_, bottom);
}

void RasterCanvas::ink(const Pen& pen) {
  for (int row = top_; row < bottom_; ++row) {
    for (int column = left_; column < right_; ++column) {
      const std::size_t at = std::size_t(row) * std::size_t(pixels_.width) + std::size_t(column);
      const double part = std::exchange(coverage_[at], 0.0f) * pen.alpha;
      for (std::size_t k = 0; k < 3; ++k) {
        u8& old = pixels_.rgb[3 * at + k];
        const double wanted = u8(pen.color >> (16 - 8 * k));
        old = u8(std::lround(old + part * (wanted - old)));
      }
    }
  }
}

}  // namespace wt::chart
