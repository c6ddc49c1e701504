#include "warptape/tools/wt/reports/run_report.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t kColumns = 450;  // stretches of a thinned curve
constexpr std::size_t kNarrowColumns = 180;
constexpr std::size_t kSmoothFrom = 80;  // shorter curves are shown as they are

template <class Get>
Points step_points(const RunHistory& history, Get get) {
  Points out;
  for (const StepRecord& r : history.steps) {
    if (const std::optional<double> y = get(r)) out.emplace_back(double(r.step), *y);
  }
  return out;
}

// The mean of a fortieth of the run around each step, so that the trend shows through the noise of
// single batches without lagging behind. What is not finite is left out of it.
Points smooth(const Points& all) {
  Points points;
  for (const auto& point : all) {
    if (std::isfinite(point.second)) points.push_back(point);
  }
  std::vector<double> sums{0};
  for (const auto& point : points) sums.push_back(sums.back() + point.second);
  Points out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // Centred, so that a steep start is not flattened; at the end it takes what there is.
    const std::size_t left = std::min(points.size() / 80, i);
    const std::size_t right = std::min(left, points.size() - 1 - i);
    const double sum = sums[i + right + 1] - sums[i - left];
    out.emplace_back(points[i].first, sum / double(left + right + 1));
  }
  return out;
}

void add_train(Chart& chart, const Points& points) {
  if (points.size() < kSmoothFrom) {
    chart.series.push_back({"train", "train", points});
    return;
  }
  chart.series.push_back({"train, each step", "raw", thin_out(points, kColumns)});
  chart.series.push_back({"train, smoothed", "train", thin_out(smooth(points), kColumns)});
}

ChartSeries step_series(const Points& points) {
  return {"", points.size() > kNarrowColumns ? "thin" : "train", thin_out(points, kNarrowColumns)};
}

// ", 640 of 10,000" where evaluations were of a part of the held-out samples, the same in all.
std::string sample_note(const RunHistory& history) {
  if (history.evals.empty() || !history.evals.back().sample) return "";
  return ", " + sample_text(*history.evals.back().sample);
}

const EvalRecord* best_eval(const RunHistory& history, const ReportOptions& options) {
  const EvalRecord* best = nullptr;
  for (const EvalRecord& r : history.evals) {
    if (options.best_step
            ? r.step == *options.best_step
            : std::isfinite(r.eval_loss) && (!best || r.eval_loss < best->eval_loss)) {
      best = &r;
    }
  }
  return best;
}

// A mark on the curve of evaluations; none where there is but one.
void add_best(Chart& chart, const EvalRecord* best, double y) {
  if (!best || chart.series.empty() || chart.series.back().points.size() < 2) return;
  chart.series.push_back(
      {"best, step " + std::to_string(best->step), "best", {{double(best->step), y}}, true});
}

Chart loss_chart(const RunHistory& history, const ReportOptions& options) {
  Chart chart{.title = "Loss", .unit = options.loss_unit, .series = {}, .wide = true};
  add_train(chart, step_points(history, [](auto& r) { return std::optional(r.loss); }));
  const bool is_loss = options.held_out == ReportOptions{}.held_out;
  ChartSeries eval{
      (is_loss ? "held out" : options.held_out) + sample_note(history), "eval", {}, true};
  for (const EvalRecord& r : history.evals) eval.points.emplace_back(double(r.step), r.eval_loss);
  if (!eval.points.empty()) {
    chart.series.push_back(std::move(eval));
    if (const EvalRecord* best = best_eval(history, options)) {
      add_best(chart, best, best->eval_loss);
    }
  }
  if (options.baseline) chart.lines.push_back({options.baseline->label, options.baseline->loss});
  return chart;
}

Chart accuracy_chart(const RunHistory& history, const ReportOptions& options) {
  ChartSeries eval{"held out", "eval", {}, true}, top5{"among the first five", "train", {}, true};
  for (const EvalRecord& r : history.evals) {
    if (r.accuracy) eval.points.emplace_back(double(r.step), 100 * *r.accuracy);
    if (r.top5) top5.points.emplace_back(double(r.step), 100 * *r.top5);
  }
  Chart chart{.title = "Held-out accuracy",
              .unit = "%" + sample_note(history),
              .series = {std::move(eval)},
              .from_zero = true};
  if (!top5.points.empty()) chart.series.push_back(std::move(top5));
  const EvalRecord* best = best_eval(history, options);
  if (best && best->accuracy) add_best(chart, best, 100 * *best->accuracy);
  return chart;
}

Chart bleu_chart(const RunHistory& history, const ReportOptions& options) {
  ChartSeries eval{"held out", "eval", {}, true};
  for (const EvalRecord& r : history.evals)
    if (r.bleu) eval.points.emplace_back(double(r.step), *r.bleu);
  std::string unit = sample_note(history);
  if (!unit.empty()) unit.erase(0, 2);
  Chart chart{.title = "Held-out BLEU",
              .unit = std::move(unit),
              .series = {std::move(eval)},
              .from_zero = true};
  const EvalRecord* best = best_eval(history, options);
  if (best && best->bleu) add_best(chart, best, *best->bleu);
  return chart;
}

Chart memory_chart(const RunHistory& history) {
  Points points = step_points(
      history, [](auto& r) { return r.bytes ? std::optional(double(*r.bytes)) : std::nullopt; });
  double top = 0;
  for (const auto& point : points) top = std::max(top, point.second);
  const bool gib = top >= double(u64{1} << 30);
  for (auto& point : points) point.second /= gib ? double(u64{1} << 30) : double(1 << 20);
  return {.title = "Memory in use",
          .unit = gib ? "GiB" : "MiB",
          .series = {step_series(points)},
          .from_zero = true};
}

// A chart of one number of each step. `varied`: only if it changes at all.
template <class Get>
std::string step_chart(const RunHistory& history, const char* title, const std::string& unit,
                       bool from_zero, Get get, bool varied = false) {
  const Points points = step_points(history, get);
  if (varied && std::all_of(points.begin(), points.end(),
                            [&](auto& p) { return p.second == points[0].second; })) {
    return "";
  }
  return render_chart(
      {.title = title, .unit = unit, .series = {step_series(points)}, .from_zero = from_zero});
}

std::string charts(const RunHistory& history, const ReportOptions& options) {
  std::string out = render_chart(loss_chart(history, options)) +
                    render_chart(accuracy_chart(history, options)) +
                    render_chart(bleu_chart(history, options));
  out +=
      step_chart(history, "Learning rate", "", true, [](auto& r) { return std::optional(r.lr); });
  out += step_chart(history, "Gradient norm", "", false, [](auto& r) { return r.grad_norm; });
  out += step_chart(
      history, "Loss scale", "", false, [](auto& r) { return r.scale; }, true);
  out += step_chart(history, "Throughput", options.item + " a second", true,
                    [](auto& r) { return r.items_per_second; });
  out += step_chart(history, "Slowest step", "ms, between two points", true,
                    [](auto& r) { return r.slowest_ms; });
  return out + render_chart(memory_chart(history));
}

std::string table(const char* title, const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string out = std::string("<section class=\"card\"><h2>") + title + "</h2><table>";
  for (const auto& [key, value] : rows) {
    out += "<tr><th scope=\"row\">" + html_escape(key) + "</th><td>" + html_escape(value) +
           "</td></tr>";
  }
  return out + "</table></section>\n";
}

std::string sections(const RunHistory& history, const ReportOptions& o) {
  std::string out;
  const std::string of = "held out" + sample_note(history);
  if (o.classes) out += render_classes(*o.classes, o.confusion ? &*o.confusion : nullptr, of);
  if (o.confusion) out += render_confusion(*o.confusion, of);
  return out + render_exponents(o.exponents) + render_samples(o.samples);
}

std::string tile(const std::string& value, const std::string& label) {
  return "<li><b>" + html_escape(value) + "</b><span>" + html_escape(label) + "</span></li>";
}

std::string percent(double part) { return short_number(100 * part) + " %"; }

std::string tiles(const RunHistory& history, const ReportOptions& options) {
  std::string out;
  if (!history.evals.empty()) {
    const EvalRecord& last = history.evals.back();
    const EvalRecord* best = best_eval(history, options);
    const std::string mark = best == &last && history.evals.size() > 1 ? ", the best" : "";
    out += tile(short_number(last.eval_loss), options.held_out + mark + sample_note(history));
    if (options.baseline)
      out += tile(short_number(options.baseline->loss), options.baseline->label);
    if (last.accuracy) out += tile(percent(*last.accuracy), "held-out accuracy");
    if (best && best != &last) {
      out += tile(
          short_number(best->eval_loss) + (best->accuracy ? " / " + percent(*best->accuracy) : ""),
          "best, step " + std::to_string(best->step));
    }
  }
  if (!history.steps.empty()) {
    const StepRecord& last = history.steps.back();
    out += tile(short_number(last.loss), "train loss, last step");
    out += tile(std::to_string(last.step), "steps");
    if (last.items_per_second) {
      out += tile(short_number(*last.items_per_second), options.item + " a second");
    }
  }
  return out.empty() ? "<p>No step has been logged yet.</p>"
                     : "<ul class=\"tiles\">" + out + "</ul>\n";
}

}  // namespace

void add_classes(ReportOptions& options, const metrics::ConfusionMatrix& matrix,
                 const std::vector<std::string>& names) {
  const std::vector<i64> counts = matrix.counts().to_vector<i64>();
  if (std::all_of(counts.begin(), counts.end(), [](i64 n) { return n == 0; })) return;
  options.classes = metrics::report_of_counts(counts, {.target_names = names});
  options.confusion = ReportConfusion{names, counts};
}

std::string render_report(const RunHistory& history, const ReportOptions& options) {
  const std::string title =
      options.title.empty() ? history.recipe + " on " + history.device : options.title;
  return page_begin({.title = title, .style = kReportStyle, .script = true}) + "<main><h1>" +
         html_escape(title) + "</h1>\n<p class=\"sub\">warptape " + html_escape(history.version) +
         ", recipe " + html_escape(history.recipe) + ", device " + html_escape(history.device) +
         ", seed " + html_escape(history.seed) + "</p>\n" + tiles(history, options) +
         "<div class=\"cards\">\n" + charts(history, options) + sections(history, options) +
         table("Summary", options.summary) + table("Options", history.options) + "</div>\n</main>" +
         page_end(kReportScript);
}

void write_report(const std::string& path, const std::string& metrics_path,
                  const ReportOptions& options) {
  write_file_atomically(path, render_report(read_metrics(metrics_path), options));
}

}  // namespace wt::tools
