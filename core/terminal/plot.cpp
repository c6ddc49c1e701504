#include "warptape/core/plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/csv_field.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/terminal/canvas.h"

namespace wt {
namespace {

using chart::Anchor;
using chart::html_escape;

constexpr std::size_t kColors = 8, kDashes = 4, kColumns = 500;
constexpr double kLetter = 7.7;  // a generous width of one letter of 12.5 px
constexpr double kKey = 34, kGap = 20, kRow = 18;

// Hues far apart in both schemes, also for the colour-blind; those that come around again have
// other dashes.
constexpr char kStyle[] = R"css(
svg{color-scheme:light dark;--page:#fff;--ink:#1c2330;--soft:#5b6675;--grid:#e8ebef;
--c0:#1f6feb;--c1:#c2410c;--c2:#15803d;--c3:#7c3aed;--c4:#0e7490;--c5:#be185d;--c6:#a16207;--c7:#475569}
@media (prefers-color-scheme:dark){svg{--page:#12161c;--ink:#e6eaf0;--soft:#9aa5b4;--grid:#28303b;
--c0:#6cb0ff;--c1:#ff9d5c;--c2:#5fd38d;--c3:#b79bff;--c4:#4fd1d9;--c5:#ff8ac2;--c6:#e3c04f;--c7:#a9b4c4}}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.page{fill:var(--page)}
.title{fill:var(--ink);font-size:15px;font-weight:600}
.note{fill:var(--soft);font-size:12.5px}
.grid{stroke:var(--grid)}
.axis{stroke:var(--soft);stroke-opacity:.6}
.tick{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.mark{fill:var(--page);stroke-width:1.6}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.d1{stroke-dasharray:7 5}.d2{stroke-dasharray:2 4}.d3{stroke-dasharray:10 4 2 4}
.mark{stroke-dasharray:none}
)css";

std::string style_of(std::size_t i) {
  return "c" + std::to_string(i % kColors) + " d" + std::to_string((i + i / kColors) % kDashes);
}

// A stranger's name must leave the picture well-formed.
std::string text_of(const std::string& text) { return is_utf8(text) ? text : printable(text); }

double text_width(const std::string& text) {
  return kLetter *
         double(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Keys and names in as many rows as they need; `y` becomes the next row.
void legend(const std::vector<PlotSeries>& series, double left, double right, double& y,
            chart::Canvas& to) {
  double x = left;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string& label = series[i].label;
    const double width = kKey + text_width(label);
    if (x > left && x + width > right) x = left, y += kRow;
    to.curve(style_of(i), {chart::Points{{x, y - 4}, {x + kKey - 8, y - 4}}});
    to.text("note", Anchor::start, x + kKey, y, text_of(label));
    x += width + kGap;
  }
  y += kRow;
}

std::string csv_number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return json_number(v);
}

}  // namespace

Plot plot(std::vector<PlotSeries> series, PlotOptions options) {
  return Plot(std::move(series), std::move(options));
}

PlotSeries::PlotSeries(std::string name, chart::Points xy)
    : label(std::move(name)), points(std::move(xy)) {}

Plot::Plot(std::vector<PlotSeries> series, PlotOptions options)
    : series_(std::move(series)), options_(std::move(options)) {
  if (series_.empty()) throw UsageError("[plot] there is no series to draw");
  if (options_.width < 200 || options_.height < 150 || options_.width > 100'000 ||
      options_.height > 100'000) {
    throw UsageError(str("[plot] a picture of ", options_.width, " x ", options_.height,
                         ", it must have 200 x 150 to 100000 x 100000"));
  }
}

void Plot::paint(chart::Canvas& head, chart::Canvas& body) const {
  chart::Chart c{.title = options_.title,
                 .series = {},
                 .from_zero = options_.from_zero,
                 .x = "",
                 .log_x = options_.log_x};
  for (std::size_t i = 0; i < series_.size(); ++i) {
    c.series.push_back({series_[i].label, style_of(i), chart::thin_out(series_[i].points, kColumns),
                        options_.markers});
  }
  chart::Frame frame{.width = double(options_.width), .height = double(options_.height)};
  frame.left = 60, frame.bottom = 48;
  double y = 26;
  if (!options_.title.empty()) {
    head.text("title", Anchor::start, 16, y, text_of(options_.title));
    y += 22;
  }
  const bool drawn = has_points(c);
  std::string note = options_.y;
  if (drawn && lay_out(c, frame).y.logarithmic) note += note.empty() ? "log scale" : ", log scale";
  head.text("note", Anchor::end, frame.width - 16, 26, text_of(note));
  const bool named = series_.size() > 1 || !series_[0].label.empty();
  // Without a title the note stands beside the legend.
  const double beside = options_.title.empty() && !note.empty() ? text_width(note) + kGap : 0;
  if (named) legend(series_, 16, frame.width - 16 - beside, y, head);
  frame.top = std::min(y + 8, frame.height - frame.bottom - 40);
  if (drawn) {
    chart::draw(c, lay_out(c, frame), body);
  } else {
    body.text("note", Anchor::middle, frame.width / 2,
              (frame.top + frame.height - frame.bottom) / 2, "no finite value");
  }
  body.text("note", Anchor::middle, (frame.left + frame.width - frame.right) / 2, frame.height - 10,
            text_of(options_.x));
}

std::string Plot::svg() const {
  chart::SvgCanvas head, body;
  paint(head, body);
  const std::string size =
      std::to_string(options_.width) + "\" height=\"" + std::to_string(options_.height);
  const std::string title = html_escape(text_of(options_.title.empty() ? "plot" : options_.title));
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + size +
         "\" viewBox=\"0 0 " + std::to_string(options_.width) + " " +
         std::to_string(options_.height) + "\"><title>" + title + "</title><style>" + kStyle +
         "</style><rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" + head.elements() +
         "\n" + body.elements() + "</svg>\n";
}

std::string Plot::csv() const {
  std::map<double, std::vector<std::optional<double>>> rows;
  std::string out = csv_field(options_.x.empty() ? "x" : options_.x);
  for (std::size_t i = 0; i < series_.size(); ++i) {
    out += "," + csv_field(series_[i].label);
    for (const auto& [x, y] : series_[i].points) {
      if (std::isnan(x)) continue;
      auto& row = rows[x];
      row.resize(series_.size());
      row[i] = y;
    }
  }
  out += "\n";
  for (const auto& [x, row] : rows) {
    out += csv_number(x);
    for (const auto& y : row) out += "," + (y ? csv_number(*y) : "");
    out += "\n";
  }
  return out;
}

void Plot::svg(const std::string& path) const { write_file_atomically(path, svg()); }
void Plot::csv(const std::string& path) const { write_file_atomically(path, csv()); }

}  // namespace wt
