// Line charts as SVG elements: what wt::plot and the run report share. Colours come from the style
// sheet of the page or picture around them, so light and dark need no second picture.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/macros.h"

namespace wt::chart {

using Points = std::vector<std::pair<double, double>>;
// Beyond this coordinates overflow; such values and NaN leave a gap.
inline bool drawable(double v) { return v < 1e150 && v > -1e150; }
inline bool drawable(const std::pair<double, double>& p) {
  return drawable(p.first) && drawable(p.second);
}

struct Series {
  std::string label;
  std::string style;  // class of the style sheet
  Points points;      // by x; points that are not finite leave a gap
  bool markers = false;
};

struct Line {  // horizontal, for a baseline
  std::string label;
  double y = 0;
};

struct Chart {
  std::string title, unit = {};
  std::vector<Series> series;
  std::vector<Line> lines{};
  bool from_zero = false;  // the y axis begins at 0
  bool wide = false;       // two columns of the report's page
  std::string x = "step";  // what the x axis counts
  bool log_x = false;      // the x axis is logarithmic; points at 0 and below leave a gap
};

// The picture's size and the margins around the curves.
struct Frame {
  double width = 520, height = 260, left = 54, right = 16, top = 12, bottom = 34;
};
struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  double from = 0, to = 1;  // in the picture
  WT_API double place(double value) const;
};
struct Layout {
  Frame frame;
  Axis x, y;
};

// Is there anything to draw?
WT_API bool has_points(const Chart& chart);
// Axes that hold all of a chart that has points; positive data that spans much gets a logarithmic
// one.
WT_API Layout lay_out(const Chart& chart, const Frame& frame);
// Grid, baselines and curves. Classes: grid, axis, tick, base, line and mark with the series' own.
WT_API std::string draw(const Chart& chart, const Layout& layout);

// A coordinate with one digit behind the point.
WT_API std::string fixed(double value);
// Text for HTML content and quoted attributes: &<>"' escaped, control characters replaced.
WT_API std::string html_escape(std::string_view text);
// Axis and table numbers: "0.25", "2e-5", "15k", "1.2M".
WT_API std::string short_number(double value);
// The two ends, and at most two points (lowest and highest) for each of `columns` stretches of
// equal count, so that a spike stays visible and a million points stay a small file.
WT_API Points thin_out(const Points& points, std::size_t columns);

}  // namespace wt::chart
