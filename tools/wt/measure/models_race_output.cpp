#include <algorithm>
#include <array>
#include <cstdio>

#include "warptape/core/chart.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/measure/models_race.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

using chart::fixed;
using chart::html_escape;

std::string headline(const ModelsRace& race) {
  const ModelsRaceOptions& o = race.options;
  return str(o.batch, o.batch == 1 ? " picture" : " pictures", " of 3 x ", o.size, " x ", o.size,
             " on ", to_string(o.device),
             o.device.kind == DeviceKind::cpu
                 ? str(", ", race.threads, race.threads == 1 ? " thread" : " threads")
                 : "",
             "; a step with ", o.optimizer, ", f32");
}

constexpr std::array kRaceColumns{"model",   "parameters", "GFLOP",     "forward ms",
                                  "GFLOP/s", "step ms",    "predicted", "measured"};
using Cells = std::array<std::string, kRaceColumns.size()>;
Cells cells(const ModelsRace& race, const ModelsRaceRow& r) {
  return {r.model,
          str(fixed_digits(double(r.cost.parameters) * 1e-6, 2), " M"),
          three_digits(r.cost.flops * 1e-9),
          three_digits(r.forward_ms),
          three_digits(r.forward_gflops_s(race.options.batch)),
          three_digits(r.step_ms),
          bytes_text(r.cost.step_bytes),
          bytes_text(r.measured_bytes)};
}

// --- the picture ---

constexpr double kBarsWidth = 1060, kNameWidth = 150, kNumberWidth = 110, kBarHeight = 16,
                 kBarGap = 8, kPanelHead = 34, kBarsTop = 58;

constexpr char kBarsStyle[] = R"css(
svg{color-scheme:light dark;--page:#fff;--ink:#1c2330;--soft:#5b6675;--grid:#e3e7ec;--bar:#1f6feb;--other:#b45309}
@media (prefers-color-scheme:dark){svg{--page:#12161c;--ink:#e6eaf0;--soft:#9aa5b4;--grid:#28303b;
--bar:#6cb0ff;--other:#ffb366}}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.page{fill:var(--page)}.lane{fill:var(--grid);fill-opacity:.45}
.title{fill:var(--ink);font-size:15px;font-weight:600}.note{fill:var(--soft);font-size:12.5px}
.head{fill:var(--ink);font-size:13px;font-weight:600}.label{fill:var(--ink);font-size:12.5px}
.number{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.bar{fill:var(--bar)}.mark{fill:var(--other)}
)css";

// One number of every model. `mark`: another number on the same scale, drawn as a line; empty:
// none.
struct Panel {
  std::string title;
  std::vector<double> values;
  std::vector<std::string> texts;
  std::vector<double> mark = {};
};

std::vector<Panel> panels_of(const ModelsRace& race) {
  std::vector<Panel> all{{"Time of a forward (ms)", {}, {}},
                         {"Time of a training step (ms)", {}, {}},
                         {"Memory of a training step; the line: predicted", {}, {}},
                         {"FLOPs of a picture (GFLOP)", {}, {}},
                         {"Parameters (millions)", {}, {}}};
  for (const ModelsRaceRow& r : race.rows) {
    const Cells c = cells(race, r);
    const double values[] = {r.forward_ms, r.step_ms, double(r.measured_bytes), r.cost.flops,
                             double(r.cost.parameters)};
    const std::string texts[] = {c[3], c[5], c[7], c[2], c[1]};
    for (size_t p = 0; p < all.size(); ++p) {
      all[p].values.push_back(values[p]);
      all[p].texts.push_back(texts[p]);
    }
    all[2].mark.push_back(double(r.cost.step_bytes));
  }
  return all;
}

std::string svg_words(const char* style, double x, double y, const std::string& words,
                      const char* anchor = "start") {
  return str("<text class=\"", style, "\" text-anchor=\"", anchor, "\" x=\"", fixed(x), "\" y=\"",
             fixed(y), "\">", html_escape(words), "</text>\n");
}
std::string svg_box(const char* style, double x, double y, double width, double height) {
  return str("<rect class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" width=\"",
             fixed(width), "\" height=\"", fixed(height), "\"></rect>\n");
}

double height_of(size_t models) { return kPanelHead + double(models) * (kBarHeight + kBarGap); }

std::string draw_panel(const Panel& p, const std::vector<ModelsRaceRow>& rows, double top) {
  double most = 0;
  for (const double v : p.values) most = std::max(most, v);
  for (const double v : p.mark) most = std::max(most, v);
  const double width = kBarsWidth - kNameWidth - kNumberWidth;
  const auto length = [&](double v) { return most > 0 ? v / most * width : 0; };
  std::string out = svg_words("head", 20, top + 20, p.title);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = top + kPanelHead + double(i) * (kBarHeight + kBarGap);
    out += svg_words("label", kNameWidth - 8, y + kBarHeight - 4, rows[i].model, "end");
    out += svg_box("lane", kNameWidth, y, width, kBarHeight);
    out += svg_box("bar", kNameWidth, y, length(p.values[i]), kBarHeight);
    if (!p.mark.empty())
      out += svg_box("mark", kNameWidth + length(p.mark[i]) - 1.5, y - 2, 3, kBarHeight + 4);
    out += svg_words("number", kNameWidth + width + 8, y + kBarHeight - 4, p.texts[i]);
  }
  return out;
}

}  // namespace

std::string models_race_table(const ModelsRace& race) {
  std::vector<Cells> lines(1);
  std::copy(kRaceColumns.begin(), kRaceColumns.end(), lines[0].begin());
  for (const ModelsRaceRow& r : race.rows) lines.push_back(cells(race, r));
  std::array<size_t, kRaceColumns.size()> widths{};
  for (const Cells& line : lines)
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string out = headline(race) + "\n\n";
  for (const Cells& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string fill(widths[c] - line[c].size(), ' ');
      out += c == 0 ? line[c] + fill : "  " + fill + line[c];
    }
    out += "\n";
  }
  return out;
}

std::string models_race_json(const ModelsRace& race, const ModelsRaceRow& r) {
  const ModelsRaceOptions& o = race.options;
  JsonObject j;
  j.add("model", r.model).add("device", to_string(o.device)).add("batch", o.batch);
  j.add("size", o.size).add("optimizer", o.optimizer).add("threads", race.threads);
  j.add("parameters", r.cost.parameters).add("flops", r.cost.flops);
  j.add("forward_ms", r.forward_ms).add("forward_least_ms", r.forward_least_ms);
  j.add("step_ms", r.step_ms).add("step_least_ms", r.step_least_ms);
  j.add("predicted_bytes", r.cost.step_bytes).add("measured_bytes", r.measured_bytes);
  return j.str();
}

std::string models_race_svg(const ModelsRace& race) {
  const std::vector<Panel> panels = panels_of(race);
  const double height = kBarsTop + double(panels.size()) * height_of(race.rows.size()) + 12;
  std::string out = str(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", fixed(kBarsWidth), " ",
      fixed(height), "\" role=\"img\" aria-label=\"Models side by side\">\n<style>", kBarsStyle,
      "</style>\n", svg_box("page", 0, 0, kBarsWidth, height),
      svg_words("title", 20, 28, "Models side by side"), svg_words("note", 20, 47, headline(race)));
  double top = kBarsTop;
  for (const Panel& p : panels) {
    out += draw_panel(p, race.rows, top);
    top += height_of(race.rows.size());
  }
  return out + "</svg>\n";
}

std::string models_race_page(const ModelsRace& race) {
  std::string table = "<table class=\"numbers\"><thead><tr>";
  for (const char* head : kRaceColumns) table += str("<th>", head, "</th>");
  table += "</tr></thead><tbody>";
  for (const ModelsRaceRow& r : race.rows) {
    const Cells c = cells(race, r);
    table += "<tr><th scope=\"row\">" + html_escape(c[0]) + "</th>";
    for (size_t i = 1; i < c.size(); ++i) table += "<td>" + html_escape(c[i]) + "</td>";
    table += "</tr>";
  }
  table +=
      "</tbody></table><p class=\"note\">GFLOP: of a forward of one picture. Times: medians, of a "
      "forward in evaluation and of a whole training step. Predicted and measured: memory at the "
      "highest point of three training steps.</p>";
  return page_begin(
             {.title = "Models side by side",
              .style = str(kReportStyle, ".bars svg{display:block;width:100%;height:auto}")}) +
         "<main><h1>Models side by side</h1>\n<p class=\"sub\">warptape " WARPTAPE_VERSION_STRING
         ": " +
         html_escape(headline(race)) +
         "</p>\n<div class=\"cards\">\n<section class=\"card wide\"><h2>Result</h2>" + table +
         "</section>\n<section class=\"card wide bars\">" + models_race_svg(race) +
         "</section>\n</div>\n</main>" + page_end();
}

void write_models_race(const std::string& folder, const ModelsRace& race) {
  std::string lines;
  for (const ModelsRaceRow& r : race.rows) lines += models_race_json(race, r) + "\n";
  write_file_atomically(folder + "/models.jsonl", lines);
  write_file_atomically(folder + "/models.svg", models_race_svg(race));
  write_file_atomically(folder + "/report.html", models_race_page(race));
}

}  // namespace wt::tools
