#include "warptape/core/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "warptape/core/terminal/canvas.h"

namespace wt::chart {
namespace {

constexpr double kLogRatio = 50;  // positive data that spans more gets a logarithmic axis

// Steps of 1, 2 or 5 times a power of ten, about `wanted` of them.
std::vector<double> linear_ticks(double low, double high, int wanted, bool whole) {
  double step = std::pow(10, std::floor(std::log10((high - low) / wanted)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if ((high - low) / step > wanted * 1.5) step *= factor;
  }
  if (whole) step = std::max(1.0, std::round(step));
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int k = 0; k < 40; ++k) {  // counted: first + 1 may equal first
    const double tick = (first + k) * step;
    if (tick > high + 1e-9 * step) break;
    ticks.push_back(tick == 0 ? 0 : tick);  // no -0
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  const double decades = std::log10(high) - std::log10(low);
  const bool few = decades < 3;
  const int stride = std::max(1, static_cast<int>(decades / 8));
  std::vector<double> ticks;
  for (int e = static_cast<int>(std::floor(std::log10(low))); std::pow(10, e) <= high;
       e += stride) {
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, e);
      if ((digit == 1 || few) && value >= low && value <= high) ticks.push_back(value);
    }
  }
  return ticks;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double v) {
    if (!drawable(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

Axis x_axis(const Chart& chart, const Frame& f) {
  Range range;
  for (const Series& s : chart.series) {
    for (const auto& p : s.points) {
      if (drawable(p) && (!chart.log_x || p.first > 0)) range.take(p.first);
    }
  }
  if (chart.log_x && !(range.high > 0)) range = {1, 10};  // nothing has a place
  Axis axis{range.low, range.high, chart.log_x, f.left, f.width - f.right};
  if (axis.logarithmic) {  // room for what stands below its first and its last tick
    const double decades = std::log10(axis.high) - std::log10(axis.low);  // a quotient overflows
    const double room = axis.low < axis.high ? std::max(std::pow(10, 0.04 * decades), 1.001) : 2;
    axis.low = std::max(axis.low / room, std::numeric_limits<double>::min());
    axis.high *= room;
  } else if (axis.low == axis.high) {
    axis.low -= 0.5, axis.high += 0.5;
  }
  return axis;
}

Axis y_axis(const Chart& chart, const Frame& f) {
  Range range;
  for (const Series& s : chart.series) {
    for (const auto& p : s.points) {
      if (drawable(p)) range.take(p.second);
    }
  }
  for (const Line& line : chart.lines) range.take(line.y);
  Axis axis{range.low, range.high, false, f.height - f.bottom, f.top};
  axis.logarithmic = range.low > 0 && range.high > kLogRatio * range.low && !chart.from_zero;
  if (axis.logarithmic) {
    axis.low /= 1.1, axis.high *= 1.1;
    return axis;
  }
  if (chart.from_zero) axis.low = std::min(axis.low, 0.0);
  double span = axis.high - axis.low;
  if (!(span > 0)) span = std::max(std::abs(axis.high) * 0.2, 1e-12);
  axis.high += 0.06 * span;
  if (!(chart.from_zero && axis.low == 0)) axis.low -= 0.06 * span;
  return axis;
}

// Is every x a whole number? Then no tick is between two of them.
bool counts(const Chart& chart) {
  for (const Series& s : chart.series) {
    for (const auto& [x, y] : s.points) {
      if (drawable(x) && x != std::floor(x)) return false;
    }
  }
  return true;
}

// Short ones, of numbers that lie close together with as many digits as tell them apart.
std::vector<std::string> tick_texts(const std::vector<double>& ticks) {
  std::vector<std::string> texts;
  for (const double t : ticks) texts.push_back(short_number(t));
  if (std::adjacent_find(texts.begin(), texts.end()) == texts.end()) return texts;
  const double gap = ticks[1] - ticks[0];
  if (!(gap > 0 && std::abs(ticks.back()) < 1e9)) return texts;
  const int digits = int(std::clamp(std::ceil(-std::log10(gap)), 0.0, 12.0));
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, ticks[i]);
    texts[i] = text;
  }
  return texts;
}

void grid(const Chart& chart, const Layout& l, Canvas& to) {
  const auto& [f, x, y] = l;
  const auto y_ticks =
      y.logarithmic ? log_ticks(y.low, y.high) : linear_ticks(y.low, y.high, 5, false);
  const std::vector<std::string> y_texts = tick_texts(y_ticks);
  for (std::size_t i = 0; i < y_ticks.size(); ++i) {
    const double at = y.place(y_ticks[i]);
    to.line("grid", f.left, at, f.width - f.right, at);
    to.text("tick", Anchor::end, f.left - 8, at + 4, y_texts[i]);
  }
  const auto x_ticks = x.logarithmic
                           ? log_ticks(x.low, x.high)
                           : linear_ticks(x.low, x.high, f.width > 520 ? 10 : 5, counts(chart));
  for (const double tick : x_ticks) {
    const double at = x.place(tick);
    to.line("axis", at, y.from, at, y.from + 4);
    to.text("tick", Anchor::middle, at, y.from + 18, short_number(tick));
  }
  to.text("tick", Anchor::end, f.left - 8, y.from + 18, chart.x);
  to.line("axis", f.left, y.from, f.width - f.right, y.from);
}

void curve(const Series& series, const Axis& x, const Axis& y, Canvas& to) {
  std::vector<Points> pieces;
  Points marks;
  bool gap = true;
  for (const auto& [px, py] : series.points) {
    if (!drawable({px, py}) || (x.logarithmic && px <= 0)) {
      gap = true;
      continue;
    }
    if (gap) pieces.emplace_back();
    gap = false;
    pieces.back().emplace_back(x.place(px), y.place(py));
    marks.push_back(pieces.back().back());
  }
  to.curve(series.style, pieces);
  if (series.markers) to.circles(series.style, marks);
}

void baseline(const Line& line, const Layout& l, Canvas& to) {
  const auto& [f, x, y] = l;
  const double at = y.place(line.y);
  const bool below = at < f.top + 18;
  to.line("base", f.left, at, f.width - f.right, at);
  to.text("base", Anchor::end, f.width - f.right - 4, at + (below ? 14 : -5),
          line.label + " " + short_number(line.y));
}

}  // namespace

double Axis::place(double value) const {
  const auto scale = [&](double v) { return logarithmic ? std::log10(v) : v; };
  return from + (to - from) * (scale(value) - scale(low)) / (scale(high) - scale(low));
}

Layout lay_out(const Chart& chart, const Frame& frame) {
  return {frame, x_axis(chart, frame), y_axis(chart, frame)};
}

bool has_points(const Chart& chart) {
  for (const Series& s : chart.series) {
    if (std::any_of(s.points.begin(), s.points.end(),
                    [](const std::pair<double, double>& p) { return drawable(p); })) {
      return true;
    }
  }
  return false;
}

void draw(const Chart& chart, const Layout& layout, Canvas& to) {
  grid(chart, layout, to);
  for (const Line& line : chart.lines) {
    if (drawable(line.y)) baseline(line, layout, to);
  }
  for (const Series& s : chart.series) curve(s, layout.x, layout.y, to);
}

std::string draw(const Chart& chart, const Layout& layout) {
  SvgCanvas svg;
  draw(chart, layout, svg);
  return svg.elements();
}

void SvgCanvas::line(const char* style, double x1, double y1, double x2, double y2) {
  out_ += std::string("<line class=\"") + style + "\" x1=\"" + fixed(x1) + "\" x2=\"" + fixed(x2) +
          "\" y1=\"" + fixed(y1) + "\" y2=\"" + fixed(y2) + "\"/>";
}

void SvgCanvas::text(const char* style, Anchor anchor, double x, double y,
                     const std::string& text) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  out_ += std::string("<text class=\"") + style + "\" text-anchor=\"" + kAnchors[int(anchor)] +
          "\" x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\">" + html_escape(text) + "</text>";
}

void SvgCanvas::curve(const std::string& style, const std::vector<Points>& pieces) {
  std::string path;
  for (const Points& piece : pieces) {
    for (std::size_t i = 0; i < piece.size(); ++i)
      path += (i == 0 ? "M" : "L") + fixed(piece[i].first) + " " + fixed(piece[i].second);
  }
  out_ += "<path class=\"line " + html_escape(style) + "\" d=\"" + path + "\"/>";
}

void SvgCanvas::circles(const std::string& style, const Points& centres) {
  out_ += "<g class=\"mark " + html_escape(style) + "\">";
  for (const auto& [x, y] : centres)
    out_ += "<circle r=\"3\" cx=\"" + fixed(x) + "\" cy=\"" + fixed(y) + "\"/>";
  out_ += "</g>";
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  char text[32];
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf";
  if (size > 0 && size < 1e-3) {
    const int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-9));
    std::snprintf(text, sizeof text, "%.4ge%d", value / std::pow(10, exponent), exponent);
  } else if (size >= 1e12) {
    std::snprintf(text, sizeof text, "%.3g", value);
  } else if (size >= 1e4) {
    const char* const suffix = size >= 1e9 ? "G" : size >= 1e6 ? "M" : "k";
    std::snprintf(text, sizeof text, "%.4g%s",
                  value / (size >= 1e9   ? 1e9
                           : size >= 1e6 ? 1e6
                                         : 1e3),
                  suffix);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

Points thin_out(const Points& points, std::size_t columns) {
  if (points.size() <= 2 * columns) return points;
  Points out;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(c * points.size() / columns);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((c + 1) * points.size() / columns);
    const auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    out.push_back(*std::min(low, high));
    if (low != high) out.push_back(*std::max(low, high));
  }
  // The ends stay, so that all charts of a run span the same steps.
  if (out.front() != points.front()) out.insert(out.begin(), points.front());
  if (out.back() != points.back()) out.push_back(points.back());
  return out;
}

}  // namespace wt::chart
