#include "warptape/tools/wt/recipes/field_page.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/core/files/html_page.h"
#include "warptape/tools/wt/data/contact_sheet.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

constexpr i64 kFieldWidth = 512;  // pixels across

// Blue below 0, red above, white between, for v in [-1, 1]; the lightness falls evenly to both
// sides.
std::array<u8, 3> colour_of(double v) {
  constexpr double kBlue[3] = {33, 82, 168}, kRed[3] = {178, 34, 40};
  const double part = std::min(1.0, std::fabs(v));
  std::array<u8, 3> c{};
  for (size_t k = 0; k < 3; ++k)
    c[k] = u8(std::lround(250 + part * ((v < 0 ? kBlue[k] : kRed[k]) - 250)));
  return c;
}

// u8 [3, nt, nx], the first time at the bottom; `scale` is what full colour stands for.
Tensor heat_map(const BurgersField& f, const std::vector<double>& values, double scale) {
  const i64 nx = i64(f.x.size()), nt = i64(f.t.size());
  Tensor out = empty({3, nt, nx}, {.dtype = DType::u8, .device = Device::cpu()});
  u8* const to = out.mutable_data<u8>();
  for (i64 ix = 0; ix < nx; ++ix)
    for (i64 it = 0; it < nt; ++it) {
      const std::array<u8, 3> c = colour_of(values[size_t(ix * nt + it)] / scale);
      for (i64 k = 0; k < 3; ++k) to[(k * nt + nt - 1 - it) * nx + ix] = c[size_t(k)];
    }
  return out;
}

std::vector<double> difference(const BurgersField& f, const std::vector<double>& predicted) {
  std::vector<double> d = predicted;
  for (size_t i = 0; i < d.size(); ++i) d[i] -= f.u[i];
  return d;
}
double largest(const std::vector<double>& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::fabs(x));
  return most > 0 ? most : 1;
}

std::vector<SheetCell> cells_of(const BurgersField& f, const std::vector<double>& predicted) {
  const std::vector<double> off = difference(f, predicted);
  const double scale = largest(f.u), off_scale = largest(off);
  return {{str("reference: blue ", three_digits(-scale), ", red ", three_digits(scale)),
           {heat_map(f, f.u, scale)}},
          {"predicted, the same colours", {heat_map(f, predicted, scale)}},
          {str("predicted - reference: blue ", three_digits(-off_scale), ", red ",
               three_digits(off_scale)),
           {heat_map(f, off, off_scale)}}};
}

// The time of the grid that is nearest to t.
std::string slice(const BurgersField& f, const std::vector<double>& predicted, double t) {
  size_t it = 0;
  for (size_t k = 0; k < f.t.size(); ++k)
    if (std::fabs(f.t[k] - t) < std::fabs(f.t[it] - t)) it = k;
  ChartSeries reference{.label = "reference", .style = "train", .points = {}},
      ours{.label = "predicted", .style = "eval", .points = {}};
  for (size_t ix = 0; ix < f.x.size(); ++ix) {
    reference.points.emplace_back(f.x[ix], f.at(ix, it));
    ours.points.emplace_back(f.x[ix], predicted[ix * f.t.size() + it]);
  }
  return render_chart({.title = str("u at t = ", three_digits(f.t[it])),
                       .series = {std::move(reference), std::move(ours)},
                       .x = "x"});
}

}  // namespace

Tensor field_picture(const BurgersField& f, const std::vector<double>& predicted) {
  std::vector<Tensor> maps;
  for (const SheetCell& c : cells_of(f, predicted)) maps.push_back(c.pixels.front());
  return contact_sheet({{"", maps}}, kFieldWidth);
}

std::string field_page(const std::string& title, const std::vector<std::string>& notes,
                       const BurgersField& f, const std::vector<double>& predicted) {
  std::string page =
      page_begin({.title = title, .style = str(kReportStyle, kSheetStyle), .pictures = true});
  page += str("<main><h1>", html_escape(title), "</h1>");
  for (const std::string& note : notes) page += "<p class=\"sub\">" + html_escape(note) + "</p>";
  page += sheet_list(cells_of(f, predicted), kFieldWidth) + "<div class=\"cards\">";
  for (const double t : {0.25, 0.5, 0.75}) page += slice(f, predicted, t);
  return page + "</div></main>" + page_end(kReportScript);
}

}  // namespace wt::tools
