// What a race leaves: a table, curves as CSV and SVG, a page.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/race.h"

namespace wt::tools {

// Mean and spread (standard deviation of the sample, NaN for fewer than two) over the seeds.
struct RaceSpread {
  double mean = 0, deviation = 0;
};
struct RaceRow {
  std::size_t racer = 0;
  i64 finished = 0, diverged = 0;               // runs
  RaceSpread train_loss{}, loss{}, accuracy{};  // of the finished runs, at the end
  double seconds = 0, skipped = 0;              // mean
  // Of the mean held-out loss from the first racer's, in standard deviations pooled over both (of a
  // race of precisions: from f32's; NaN for fewer than two runs of either).
  double distance = NAN;
};
// A row for each racer: of optimizers the best mean held-out loss first, those without a finished
// run last.
std::vector<RaceRow> race_rows(const Race& race);

std::string race_table(const Race& race);
std::string race_json(const Race& race);  // one line
// optimizer or precision, seed, step, train_loss, eval_loss, accuracy: a line for each point, empty
// where a curve has none there.
std::string race_csv(const Race& race);
// Mean over the seeds of each racer's training loss, or held-out loss, as a picture of its own.
std::string race_svg(const Race& race, bool held_out = false);
std::string race_page(const Race& race);

// race.csv, race.svg and report.html in `folder`. CheckpointError if one cannot be written.
void write_race(const std::string& folder, const Race& race);

}  // namespace wt::tools
