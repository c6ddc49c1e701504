#include "warptape/tools/wt/measure/race_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/plot.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

constexpr const char* kRaceStyle =
    ".race svg{display:block;width:100%;height:auto}.race h2{display:none}"
    ".race svg .page{fill:none}";

RaceSpread spread_of(const std::vector<double>& values) {
  const double n = double(values.size());
  RaceSpread s{NAN, NAN};
  if (values.empty()) return s;
  s.mean = 0;
  for (const double v : values) s.mean += v / n;
  if (values.size() < 2) return s;
  double sum = 0;
  for (const double v : values) sum += (v - s.mean) * (v - s.mean);
  s.deviation = std::sqrt(sum / (n - 1));
  return s;
}

std::string text_of(const RaceSpread& s, int digits, const char* between) {
  if (std::isnan(s.mean)) return "-";
  return fixed_digits(s.mean, digits) +
         (std::isnan(s.deviation) ? "" : between + fixed_digits(s.deviation, digits));
}

// Of the last tenth of the curve: single steps are noise.
double final_loss(const RaceRun& run) {
  const std::size_t n = std::max<std::size_t>(1, run.train.size() / 10);
  double sum = 0;
  for (std::size_t i = run.train.size() - n; i < run.train.size(); ++i) sum += run.train[i].second;
  return sum / double(n);
}

RaceSpread times(RaceSpread s, double factor) { return {s.mean * factor, s.deviation * factor}; }

std::string state_of(const RaceRow& row, const Race& race) {
  std::string out;
  if (row.diverged > 0) out = str(row.diverged, " diverged");
  const i64 missing = race.seeds - row.finished - row.diverged;
  if (missing > 0) out += str(out.empty() ? "" : ", ", missing, " not finished");
  return out;
}

// The cells of a row as text; `between` stands between mean and deviation.
std::vector<std::string> cells(const RaceRow& row, const Race& race, const char* between) {
  const Racer& r = race.racers[row.racer];
  std::vector<std::string> out{r.name,
                               short_number(r.lr),
                               text_of(row.train_loss, 4, between),
                               text_of(row.loss, 4, between),
                               text_of(times(row.accuracy, 100), 2, between),
                               row.finished ? fixed_digits(row.seconds, 1) : "-"};
  if (race.of_precisions()) {
    out.push_back(std::isnan(row.distance) ? "-" : fixed_digits(row.distance, 2));
    out.push_back(row.finished ? fixed_digits(row.skipped, 1) : "-");
  }
  out.push_back(state_of(row, race));
  return out;
}
std::vector<std::string> heads(const Race& race) {
  std::vector<std::string> out{race.varied(),   "lr",         "train loss",
                               "held-out loss", "accuracy %", "seconds"};
  if (race.of_precisions()) out.insert(out.end(), {"from f32", "skipped"});
  out.emplace_back();
  return out;
}

std::string headline(const Race& race) {
  return str(race.seeds, race.seeds == 1 ? " seed" : " seeds", ", ", race.steps, " steps of ",
             race.batch, " ", race.item, ", judged on ", race.held_out, "; ", race.recipe, " (",
             race.settings, ") on ", race.device);
}

// The mean over the finished runs, or over all where none has finished.
template <class Points>
std::vector<PlotSeries> mean_curves(const Race& race, Points points) {
  std::vector<PlotSeries> out;
  for (std::size_t r = 0; r < race.racers.size(); ++r) {
    const bool finished = std::any_of(race.runs.begin(), race.runs.end(), [&](const RaceRun& run) {
      return run.racer == r && run.finished;
    });
    std::map<double, std::pair<double, int>> sums;
    for (const RaceRun& run : race.runs) {
      if (run.racer != r || (finished && !run.finished)) continue;
      for (const auto& [x, y] : points(run)) sums[x].first += y, ++sums[x].second;
    }
    chart::Points curve;
    for (const auto& [x, sum] : sums) curve.emplace_back(x, sum.first / sum.second);
    out.emplace_back(race.racers[r].name, std::move(curve));
  }
  return out;
}

std::string card(const char* style, const std::string& title, const std::string& body) {
  return std::string("<section class=\"card ") + style + "\"><h2>" + html_escape(title) + "</h2>" +
         body + "</section>\n";
}

std::string html_table(const Race& race) {
  std::string out = "<table class=\"numbers\"><thead><tr>";
  for (const std::string& head : heads(race)) out += "<th>" + head + "</th>";
  out += "</tr></thead><tbody>";
  for (const RaceRow& row : race_rows(race)) {
    out += "<tr>";
    const std::vector<std::string> texts = cells(row, race, " \xc2\xb1 ");
    out += "<th scope=\"row\">" + html_escape(texts[0]) + "</th>";
    for (std::size_t c = 1; c < texts.size(); ++c) out += "<td>" + html_escape(texts[c]) + "</td>";
    out += "</tr>";
  }
  return out +
         "</tbody></table><p class=\"note\">Mean \xc2\xb1 standard deviation over the seeds; " +
         (race.of_precisions() ? "from f32: difference of the mean held-out losses in pooled "
                                 "standard deviations; skipped: steps a run. "
                               : "best held-out loss first. ") +
         "Training loss of the last tenth of the steps. Every " + race.varied() +
         " has the same initial weights, order of the data and number of steps.</p>";
}

}  // namespace

std::vector<RaceRow> race_rows(const Race& race) {
  std::vector<RaceRow> rows;
  for (std::size_t r = 0; r < race.racers.size(); ++r) {
    RaceRow row{.racer = r};
    std::vector<double> train, loss, accuracy;
    for (const RaceRun& run : race.runs) {
      if (run.racer != r) continue;
      row.diverged += run.diverged;
      if (!run.finished) continue;
      ++row.finished;
      row.seconds += run.seconds;
      row.skipped += double(run.skipped);
      train.push_back(final_loss(run));
      loss.push_back(run.evals.back().loss);
      accuracy.push_back(run.evals.back().accuracy);
    }
    if (row.finished > 0) row.seconds /= double(row.finished), row.skipped /= double(row.finished);
    row.train_loss = spread_of(train), row.loss = spread_of(loss);
    row.accuracy = spread_of(accuracy);
    const RaceSpread& first = r ? rows[0].loss : row.loss;
    row.distance =
        (row.loss.mean - first.mean) /
        std::sqrt((row.loss.deviation * row.loss.deviation + first.deviation * first.deviation) /
                  2);
    rows.push_back(row);
  }
  if (race.of_precisions()) return rows;
  std::stable_sort(rows.begin(), rows.end(), [](const RaceRow& a, const RaceRow& b) {
    if ((a.finished > 0) != (b.finished > 0)) return a.finished > 0;
    return a.finished > 0 && a.loss.mean < b.loss.mean;
  });
  return rows;
}

std::string race_table(const Race& race) {
  std::vector<std::vector<std::string>> lines{heads(race)};
  for (const RaceRow& row : race_rows(race)) lines.push_back(cells(row, race, " +- "));
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string out = headline(race) + "\n\n";
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string fill(widths[c] - line[c].size(), ' ');
      const bool left = c == 0 || c + 1 == line.size();
      text += (c ? "  " : "") + (left ? line[c] + fill : fill + line[c]);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string race_json(const Race& race) {
  std::string results;
  i64 finished = 0;
  const std::vector<RaceRow> rows = race_rows(race);
  for (const RaceRow& row : rows) {
    const Racer& r = race.racers[row.racer];
    finished += row.finished;
    JsonObject o;
    const auto add = [&](const char* key, double v) {
      std::isnan(v) ? o.add_null(key) : o.add(key, v);
    };
    o.add(race.varied(), r.name).add("lr", r.lr);
    add("train_loss", row.train_loss.mean);
    add("eval_loss", row.loss.mean);
    add("eval_loss_deviation", row.loss.deviation);
    add("accuracy", row.accuracy.mean);
    add("accuracy_deviation", row.accuracy.deviation);
    if (race.of_precisions()) {
      add("from_f32", row.distance);
      o.add("skipped", row.skipped);
    }
    o.add("finished", row.finished).add("diverged", row.diverged).add("seconds", row.seconds);
    results += (results.empty() ? "" : ",") + o.str();
  }
  JsonObject o;
  o.add("recipe", race.name).add("of", race.recipe).add("device", race.device);
  o.add("seeds", race.seeds).add("steps", race.steps).add("runs_finished", finished);
  if (!race.of_precisions()) {
    if (!rows.empty() && rows[0].finished > 0)
      o.add("best", race.racers[rows[0].racer].name);
    else
      o.add_null("best");
  }
  return o.add_raw("results", "[" + results + "]").str();
}

std::string race_csv(const Race& race) {
  std::string out = str(race.varied(), ",seed,step,train_loss,eval_loss,accuracy\n");
  for (const RaceRun& run : race.runs) {
    std::map<i64, std::pair<std::optional<double>, const RaceEval*>> lines;
    for (const auto& [step, loss] : run.train) lines[i64(step)].first = loss;
    for (const RaceEval& e : run.evals) lines[e.step].second = &e;
    const auto number = [](double v) { return std::isfinite(v) ? json_number(v) : "nan"; };
    for (const auto& [step, line] : lines) {
      out += str(race.racers[run.racer].name, ",", run.seed, ",", step, ",",
                 line.first ? number(*line.first) : "", ",",
                 line.second ? number(line.second->loss) : "", ",",
                 line.second ? number(line.second->accuracy) : "", "\n");
    }
  }
  return out;
}

std::string race_svg(const Race& race, bool held_out) {
  const std::string over = race.seeds > 1 ? str(", mean of ", race.seeds, " seeds") : std::string();
  const PlotOptions options{.title = (held_out ? "Held-out loss" : "Training loss") + over,
                            .y = "nats",
                            .markers = held_out,
                            .width = 1060,
                            .height = 460};
  if (!held_out)
    return plot(mean_curves(race, [](const RaceRun& r) { return r.train; }), options).svg();
  return plot(mean_curves(race,
                          [](const RaceRun& r) {
                            chart::Points points;
                            for (const RaceEval& e : r.evals)
                              points.emplace_back(double(e.step), e.loss);
                            return points;
                          }),
              options)
      .svg();
}

std::string race_page(const Race& race) {
  const std::string title = str(race.of_precisions() ? "Precision" : "Optimizer",
                                " race: ", race.recipe, " on ", race.device);
  return page_begin({.title = title, .style = str(kReportStyle, kRaceStyle)}) + "<main><h1>" +
         html_escape(title) + "</h1>\n<p class=\"sub\">warptape " WARPTAPE_VERSION_STRING ": " +
         html_escape(headline(race)) + "</p>\n<div class=\"cards\">\n" +
         card("wide", "Result", html_table(race)) +
         card("wide race", "Training loss", race_svg(race)) +
         card("wide race", "Held-out loss", race_svg(race, true)) + "</div>\n</main>" + page_end();
}

void write_race(const std::string& folder, const Race& race) {
  write_file_atomically(folder + "/race.csv", race_csv(race));
  write_file_atomically(folder + "/race.svg", race_svg(race));
  write_file_atomically(folder + "/report.html", race_page(race));
}

}  // namespace wt::tools
