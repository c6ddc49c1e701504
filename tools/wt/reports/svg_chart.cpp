#include "warptape/tools/wt/reports/svg_chart.h"

#include <cmath>

#include "warptape/core/files/json.h"

namespace wt::tools {
namespace {

using chart::fixed;

constexpr chart::Frame kNarrow{}, kWide{.width = 1064};
constexpr std::size_t kHoverPoints = 240;

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
std::string hover_data(const Chart& chart, const chart::Axis& x) {
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
      steps += comma + (px == std::floor(px) && std::fabs(px) < 1e15
                            ? std::to_string(static_cast<long long>(px))
                            : json_quote(short_number(px)));
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

}  // namespace

std::string render_chart(const Chart& chart) {
  if (!has_points(chart)) return "";
  const chart::Layout layout = lay_out(chart, chart.wide ? kWide : kNarrow);
  std::string notes = chart.unit;
  if (layout.y.logarithmic) notes += notes.empty() ? "log scale" : ", log scale";
  return std::string("<figure class=\"card") + (chart.wide ? " wide" : "") + "\"><figcaption><h2>" +
         html_escape(chart.title) +
         (notes.empty() ? "" : " <small>" + html_escape(notes) + "</small>") + "</h2>" +
         legend(chart) + "</figcaption><svg class=\"chart\" role=\"img\" aria-label=\"" +
         html_escape(chart.title) + " by " + html_escape(chart.x) + "\" viewBox=\"0 0 " +
         fixed(layout.frame.width) + " " + fixed(layout.frame.height) + "\" data-s=\"" +
         html_escape(hover_data(chart, layout.x)) + "\">" + draw(chart, layout) +
         "<g class=\"hover\"></g></svg></figure>\n";
}

}  // namespace wt::tools
