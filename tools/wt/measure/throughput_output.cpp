// The throughput of batch sizes as text, JSON and a page.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/plot.h"
#include "warptape/tools/wt/measure/throughput.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

constexpr int kBar = 40;
constexpr double kNoisy = 0.3;  // of the spread, above which a knee is doubted

template <class... A>
std::string throughput_line(const char* format, A... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double best_rate(const Throughput& t) {
  const std::optional<Knee> k = t.knee();
  return k ? t.points[k->best].rate() : 0;
}

double largest_spread(const Throughput& t) {
  double most = 0;
  for (const ThroughputPoint& p : t.points) most = std::max(most, p.spread);
  return most;
}

// "knee: a batch of 64 makes 92 % of the best rate ..."
std::string knee_text(const Throughput& t) {
  const std::optional<Knee> k = t.knee();
  if (!k) return "no rate was measured";
  const ThroughputPoint& p = t.points[k->at];
  const double of_best = p.rate() / best_rate(t);
  std::string text =
      str("knee: batch ", p.batch, ", the smallest from which on rates stay within ",
          three_digits(100 * t.share), " % of the best one (", percent_text(of_best), " of it)");
  if (const double noise = largest_spread(t); noise > kNoisy)
    text += str("; the measurements of a batch spread by up to ", three_digits(100 * noise),
                " %: the machine does other things, measure again");
  if (k->still_rising)
    text += "; rates still rise at the largest batch, so the knee may lie beyond it";
  return text;
}

std::string title_of(const Throughput& t) {
  return str(t.recipe, " on ", t.device, ", ", t.precision);
}

std::string html_rows(const Throughput& t) {
  const std::optional<Knee> k = t.knee();
  std::string rows;
  for (size_t i = 0; i < t.points.size(); ++i) {
    const ThroughputPoint& p = t.points[i];
    rows += str("<tr><th scope=\"row\">", p.batch, k && k->at == i ? ", the knee" : "", "</th><td>",
                three_digits(1e3 * p.seconds), "</td><td>",
                short_number(p.rate() * double(t.items_per_sample)), "</td><td>",
                percent_text(p.rate() / best_rate(t)), "</td><td>", percent_text(p.spread),
                "</td><td>", bytes_text(p.peak_bytes), "</td></tr>");
  }
  return rows;
}

std::string card(const char* title, const std::string& body) {
  return str("<section class=\"card wide\"><h2>", title, "</h2>", body, "</section>\n");
}

}  // namespace

std::string throughput_text(const Throughput& t) {
  const std::optional<Knee> k = t.knee();
  std::string text = str(title_of(t), "; steps on a batch that is there already\n");
  text += throughput_line("%8s %10s %14s %9s %12s  of the best rate\n", "batch", "ms a step",
                          (t.item + "/s").c_str(), "spread", "peak");
  for (size_t i = 0; i < t.points.size(); ++i) {
    const ThroughputPoint& p = t.points[i];
    const double of_best = p.rate() / best_rate(t);
    const auto bar = size_t(std::lround(of_best * kBar));
    text += throughput_line("%8lld %10s %14s %9s %12s  ", static_cast<long long>(p.batch),
                            three_digits(1e3 * p.seconds).c_str(),
                            three_digits(p.rate() * double(t.items_per_sample)).c_str(),
                            percent_text(p.spread).c_str(), bytes_text(p.peak_bytes).c_str());
    text += str("|", std::string(bar, '#'), std::string(kBar - bar, ' '), "| ",
                percent_text(of_best), k && k->at == i ? "  <- knee" : "", "\n");
  }
  return text + knee_text(t) + "\nno larger batch: " + t.ended + "\n";
}

std::string throughput_json(const Throughput& t) {
  std::string points;
  for (const ThroughputPoint& p : t.points)
    points += (points.empty() ? "" : ",") +
              JsonObject()
                  .add("batch", p.batch)
                  .add("ms", 1e3 * p.seconds)
                  .add("samples_per_second", p.rate())
                  .add("items_per_second", p.rate() * double(t.items_per_sample))
                  .add("spread", p.spread)
                  .add("peak_bytes", p.peak_bytes)
                  .str();
  JsonObject j;
  j.add("recipe", t.recipe).add("settings", t.settings).add("device", t.device);
  j.add("precision", t.precision).add("item", t.item).add_raw("points", "[" + points + "]");
  if (const std::optional<Knee> k = t.knee())
    j.add("knee", t.points[k->at].batch)
        .add("best", t.points[k->best].batch)
        .add("share", t.share)
        .add("still_rising", k->still_rising);
  else
    j.add_null("knee");
  return j.add("ended", t.ended).str();
}

std::string throughput_page(const Throughput& t) {
  chart::Points rates, floor;
  for (const ThroughputPoint& p : t.points) {
    const double x = std::log2(double(p.batch));
    rates.emplace_back(x, p.rate() * double(t.items_per_sample));
    floor.emplace_back(x, t.share * best_rate(t) * double(t.items_per_sample));
  }
  const std::string picture =
      plot({{"measured", rates}, {str(three_digits(100 * t.share), " % of the best"), floor}},
           {.title = "Throughput",
            .x = "batch, as a power of two",
            .y = t.item + " a second",
            .from_zero = true,
            .markers = true,
            .width = 1060,
            .height = 380})
          .svg();
  const std::string title = "Throughput: " + title_of(t);
  return str(page_begin({.title = title,
                         .style = str(kReportStyle,
                                      ".card svg{display:block;width:100%;height:auto}"
                                      ".card svg .page{fill:none}")}),
             "<main><h1>", html_escape(title),
             "</h1>\n<p class=\"sub\">warptape " WARPTAPE_VERSION_STRING ", ",
             html_escape(t.settings), "</p>\n<div class=\"cards\">\n", card("Rates", picture),
             card("Batches",
                  str("<table class=\"numbers\"><thead><tr><th>batch</th><th>ms a step</th><th>",
                      html_escape(t.item),
                      "/s</th><th>of the best</th><th>spread</th><th>peak memory</th></tr></thead>"
                      "<tbody>",
                      html_rows(t), "</tbody></table><p class=\"note\">", html_escape(knee_text(t)),
                      ".</p><p class=\"note\">No larger batch: ", html_escape(t.ended), ".</p>")),
             "</div>\n</main>", page_end());
}

}  // namespace wt::tools
