// Line charts as inline SVG for the run report: colours come from the page's style sheet, so light
// and dark need no second picture, and series differ by dash and marker as well as by colour.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wt::tools {

// Text for HTML content and quoted attributes: &<>"' escaped, control characters replaced.
std::string html_escape(std::string_view text);

struct ChartSeries {
  std::string label;
  std::string style;  // class of the style sheet: "train", "thin", "raw", "eval"
  std::vector<std::pair<double, double>> points;  // by x; points that are not finite leave a gap
  bool markers = false;
};

struct ChartLine {  // horizontal, for a baseline
  std::string label;
  double y = 0;
};

struct Chart {
  std::string title, unit = {};
  std::vector<ChartSeries> series;
  std::vector<ChartLine> lines = {};
  bool from_zero = false;  // the y axis begins at 0
  bool wide = false;       // two columns of the page
};

// A <figure> with caption, legend and picture; "" if the chart has no finite point.
std::string render_chart(const Chart& chart);

// The two ends, and at most two points (lowest and highest) for each of `columns` stretches of
// equal count, so that a spike stays visible and a million points stay a small file.
std::vector<std::pair<double, double>> thin_out(
    const std::vector<std::pair<double, double>>& points, std::size_t columns);

// Axis and table numbers: "0.25", "2e-5", "15k", "1.2M".
std::string short_number(double value);

}  // namespace wt::tools
