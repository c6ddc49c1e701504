#include "warptape/tools/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "warptape/core/json.h"

namespace wt::tools {
namespace {

constexpr double kHeight = 260, kLeft = 54, kRight = 16, kTop = 12, kBottom = 34;
constexpr double kNarrow = 520, kWide = 1064;
constexpr std::size_t kHoverPoints = 240;
constexpr double kLogRatio = 50;  // positive data that spans more gets a logarithmic axis

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  double from = 0, to = 1;  // in the picture

  double place(double value) const {
    const auto scale = [&](double v) { return logarithmic ? std::log10(v) : v; };
    return from + (to - from) * (scale(value) - scale(low)) / (scale(high) - scale(low));
  }
};

// Steps of 1, 2 or 5 times a power of ten, about `wanted` of them.
std::vector<double> linear_ticks(double low, double high, int wanted, bool whole) {
  double step = std::pow(10, std::floor(std::log10((high - low) / wanted)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if ((high - low) / step > wanted * 1.5) step *= factor;
  }
  if (whole) step = std::max(1.0, std::round(step));
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push_back(i == 0 ? 0 : i * step);  // no -0
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  const bool few = std::log10(high / low) < 3;
  std::vector<double> ticks;
  for (int e = static_cast<int>(std::floor(std::log10(low))); std::pow(10, e) <= high; ++e) {
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
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return !(low <= high); }
};

Axis x_axis(const Chart& chart, double width) {
  Range range;
  for (const ChartSeries& s : chart.series) {
    for (const auto& [x, y] : s.points) range.take(x);
  }
  Axis axis{range.low, range.high, false, kLeft, width - kRight};
  if (axis.low == axis.high) axis.low -= 0.5, axis.high += 0.5;
  return axis;
}

Axis y_axis(const Chart& chart) {
  Range range;
  for (const ChartSeries& s : chart.series) {
    for (const auto& [x, y] : s.points) range.take(y);
  }
  for (const ChartLine& line : chart.lines) range.take(line.y);
  Axis axis{range.low, range.high, false, kHeight - kBottom, kTop};
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

std::string grid(const Axis& x, const Axis& y, double width) {
  std::string out;
  const auto y_ticks =
      y.logarithmic ? log_ticks(y.low, y.high) : linear_ticks(y.low, y.high, 5, false);
  for (const double tick : y_ticks) {
    const std::string at = fixed(y.place(tick));
    out += "<line class=\"grid\" x1=\"" + fixed(kLeft) + "\" x2=\"" + fixed(width - kRight) +
           "\" y1=\"" + at + "\" y2=\"" + at + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" +
           fixed(kLeft - 8) + "\" y=\"" + fixed(y.place(tick) + 4) + "\">" + short_number(tick) +
           "</text>";
  }
  for (const double tick : linear_ticks(x.low, x.high, width > kNarrow ? 10 : 5, true)) {
    const std::string at = fixed(x.place(tick));
    out += "<line class=\"axis\" x1=\"" + at + "\" x2=\"" + at + "\" y1=\"" + fixed(y.from) +
           "\" y2=\"" + fixed(y.from + 4) + "\"/><text class=\"tick\" text-anchor=\"middle\" x=\"" +
           at + "\" y=\"" + fixed(y.from + 18) + "\">" + short_number(tick) + "</text>";
  }
  out += "<text class=\"tick\" text-anchor=\"end\" x=\"" + fixed(kLeft - 8) + "\" y=\"" +
         fixed(y.from + 18) + "\">step</text>";
  return out + "<line class=\"axis\" x1=\"" + fixed(kLeft) + "\" x2=\"" + fixed(width - kRight) +
         "\" y1=\"" + fixed(y.from) + "\" y2=\"" + fixed(y.from) + "\"/>";
}

std::string curve(const ChartSeries& series, const Axis& x, const Axis& y) {
  std::string path, marks;
  bool gap = true;
  for (const auto& [px, py] : series.points) {
    if (!std::isfinite(px) || !std::isfinite(py)) {
      gap = true;
      continue;
    }
    const std::string at = fixed(x.place(px)) + " " + fixed(y.place(py));
    path += (gap ? "M" : "L") + at;
    gap = false;
    if (series.markers) {
      marks +=
          "<circle r=\"3\" cx=\"" + fixed(x.place(px)) + "\" cy=\"" + fixed(y.place(py)) + "\"/>";
    }
  }
  const std::string style = html_escape(series.style);
  std::string out = "<path class=\"line " + style + "\" d=\"" + path + "\"/>";
  if (series.markers) out += "<g class=\"mark " + style + "\">" + marks + "</g>";
  return out;
}

std::string baseline(const ChartLine& line, const Axis& y, double width) {
  const double at = y.place(line.y);
  const bool below = at < kTop + 18;
  return "<line class=\"base\" x1=\"" + fixed(kLeft) + "\" x2=\"" + fixed(width - kRight) +
         "\" y1=\"" + fixed(at) + "\" y2=\"" + fixed(at) +
         "\"/><text class=\"base\" text-anchor=\"end\" x=\"" + fixed(width - kRight - 4) +
         "\" y=\"" + fixed(at + (below ? 14 : -5)) + "\">" + html_escape(line.label) + " " +
         short_number(line.y) + "</text>";
}

std::string legend(const Chart& chart) {
  if (chart.series.size() < 2) return "";
  std::string out = "<span class=\"legend\">";
  for (const ChartSeries& s : chart.series) {
    const std::string style = html_escape(s.style);
    out += "<span><svg class=\"key\" viewBox=\"0 0 30 10\"><path class=\"line " + style +
           "\" d=\"M0 5L30 5\"/>" +
           (s.markers ? "<g class=\"mark " + style + "\"><circle r=\"3\" cx=\"15\" cy=\"5\"/></g>"
                      : "") +
           "</svg>" + html_escape(s.label) + "</span>";
  }
  return out + "</span>";
}

// What the page's script needs to show values under the pointer: not more points than a pointer can
// tell apart.
std::string hover_data(const Chart& chart, const Axis& x) {
  std::string out;
  for (const ChartSeries& s : chart.series) {
    if (s.style == "raw") continue;
    const std::size_t stride = 1 + s.points.size() / kHoverPoints;
    std::string places, steps, values;
    for (std::size_t i = 0; i < s.points.size(); i += stride) {
      const auto [px, py] = s.points[i];
      if (!std::isfinite(px) || !std::isfinite(py)) continue;
      const char* const comma = places.empty() ? "" : ",";
      places += comma + fixed(x.place(px));
      steps += comma + std::to_string(static_cast<long long>(px));
      values += comma + json_quote(short_number(py));
    }
    out += (out.empty() ? "" : ",") + JsonObject()
                                          .add("n", s.label)
                                          .add_raw("px", "[" + places + "]")
                                          .add_raw("x", "[" + steps + "]")
                                          .add_raw("y", "[" + values + "]")
                                          .str();
  }
  return "[" + out + "]";
}

bool has_points(const Chart& chart) {
  for (const ChartSeries& s : chart.series) {
    for (const auto& [x, y] : s.points) {
      if (std::isfinite(x) && std::isfinite(y)) return true;
    }
  }
  return false;
}

}  // namespace

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

std::vector<std::pair<double, double>> thin_out(
    const std::vector<std::pair<double, double>>& points, std::size_t columns) {
  if (points.size() <= 2 * columns) return points;
  std::vector<std::pair<double, double>> out;
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

std::string render_chart(const Chart& chart) {
  if (!has_points(chart)) return "";
  const double width = chart.wide ? kWide : kNarrow;
  const Axis x = x_axis(chart, width), y = y_axis(chart);
  std::string notes = chart.unit;
  if (y.logarithmic) notes += notes.empty() ? "log scale" : ", log scale";
  std::string out = std::string("<figure class=\"card") + (chart.wide ? " wide" : "") +
                    "\"><figcaption><h2>" + html_escape(chart.title) +
                    (notes.empty() ? "" : " <small>" + html_escape(notes) + "</small>") + "</h2>" +
                    legend(chart) + "</figcaption><svg class=\"chart\" role=\"img\" aria-label=\"" +
                    html_escape(chart.title) + " by step\" viewBox=\"0 0 " + fixed(width) + " " +
                    fixed(kHeight) + "\" data-s=\"" + html_escape(hover_data(chart, x)) + "\">";
  out += grid(x, y, width);
  for (const ChartLine& line : chart.lines) out += baseline(line, y, width);
  for (const ChartSeries& s : chart.series) out += curve(s, x, y);
  return out + "<g class=\"hover\"></g></svg></figure>\n";
}

}  // namespace wt::tools
