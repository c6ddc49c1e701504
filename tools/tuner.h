// The work of `wt tune`: proves variants against the cpu, times those that are right, and keeps the
// file that `run` ranks by. What a variant is comes from outside: bench's problems, or a test's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/kernels/run_tune_file.h"

namespace wt::tools {

struct TuneTime {
  double median_us = 0, spread = 0;
  double fraction = 0;  // of the time that `bound` allows
  std::string bound = {};
};

// A variant over operands that are there.
struct TuneVariant {
  std::string name;
  bool deterministic = true;
  std::function<std::vector<double>()> values;  // of one launch; throws what the launch throws
  std::function<TuneTime()> time = {};          // null: it is only proved
};

// One contract at one size and dtype. Every variant is held against `want`.
struct TuneSubject {
  std::string shape;
  i64 bytes = 0;
  double tolerance = 0;
  std::vector<double> want;
  std::vector<TuneVariant> variants;  // the plainest first
};

// How a subject is made, when it is its turn; one without variants has nothing to prove.
struct TuneTask {
  std::string contract, dtype, size;
  std::function<TuneSubject()> make;
};

struct TuneOptions {
  std::string path;                       // of the file; what is done is in it after each task
  std::function<bool()> stopped = {};     // asks to stop after the task
  std::function<void(size_t)> done = {};  // tasks that have been done or need not be
  std::function<void(const TuneRow&)> found = {};  // each row as it comes
};

// Does the tasks that `file` has no rows of and writes the file after each. A variant that was
// wrong at one size is not tried again. A task during which this process ends leaves a note beside
// the file: the next call puts the variant down as failed and goes on with the others, if the
// device was lost or tune_ended() was called; where everything was killed from outside, it tries
// the variant once more. True when all are done.
bool tune(const std::vector<TuneTask>& tasks, TuneFile& file, const TuneOptions& o);

// Of the file at `path`: the process that did its tasks ended by itself or hung, so what it was
// trying is at fault.
void tune_ended(const std::string& path);

// Contracts in the order of what training spends its time on; the others follow them. A measurement
// that is cut short has the first of these.
const std::vector<std::string>& tune_order();

// |got - want| / |want|; infinite where the number of values differs or one is NaN that should not.
double tune_error(const std::vector<double>& got, const std::vector<double>& want);

// The table at the end: for each contract, dtype and size the variants, fastest first.
std::string tune_table(const TuneFile& file);
// A page with the table and bars of the fractions.
std::string tune_page(const TuneFile& file);

}  // namespace wt::tools
