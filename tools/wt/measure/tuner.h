// The work of `wt tune`: proves variants against the cpu, times those that are right, and keeps the
// file that `run` ranks by. What a variant is comes from outside: bench's problems, or a test's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/kernels/dispatch/run_tune_file.h"

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

// One contract at one size and dtype. Every variant is held against `want`, or against the first of
// them that runs.
struct TuneSubject {
  std::string shape;
  i64 bytes = 0;
  double tolerance = 0;
  std::vector<double> want;
  std::vector<TuneVariant> variants;  // the plainest first
  bool first_is_right = false;        // then there is no `want`
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
// wrong at one size is not tried again. While something is tried there is a note beside the file.
// One that says what was at fault (blame_noted; a DeviceError says so itself) puts its variant down
// as failed, and the others of its task are tried; one that does not, since somebody ended the
// process from outside, says nothing. True when all tasks are done.
bool tune(const std::vector<TuneTask>& tasks, TuneFile& file, const TuneOptions& o);
// What may be at fault.
inline constexpr const char* kTuneEnded = "ended the process";
inline constexpr const char* kTuneHung = "hung";
// For who saw the process of tune() end, or ended it: what was tried is at fault. `path`: the
// file's.
void blame_noted(const std::string& path, const std::string& fault);

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
