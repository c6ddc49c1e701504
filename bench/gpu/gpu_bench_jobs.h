// What the subcommands of wt_gpu_bench have in common: their options, the rows that they write, the
// walk over contracts. gpu_bench.cpp has the command line.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/gpu/plant.h"
#include "warptape/bench/gpu/problems.h"

namespace wt::bench {

enum BenchExit { kBenchRight = 0, kBenchWrong = 1, kBenchLeft = 3, kBenchSkipped = 77 };

struct BenchOptions {
  std::string what;
  std::string json;        // rows are appended to it; empty: they are only printed
  std::string only, skip;  // names of contracts, with commas; only empty: all
  std::string from;        // the contract to begin with; empty: the first
  std::string without;     // a variant that is left out
  std::string ceilings;    // rows of an earlier `ceilings`; empty: measured anew
  std::string disk;        // a folder on the disk to be measured; empty: none is
  std::string model, precision = "f32", mode = "eager";
  std::string folder;  // where the ranks meet
  bool best = false, poison = true;
  double seconds = 0;      // of one measurement; 0: what suits the subcommand
  double all_seconds = 0;  // no contract is begun later; 0: as long as it takes
  double windows = 3, rank = 0, world = 2;
  Device device = Device::cuda();
  Scale scale = Scale::real;
  Plant plant;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  double seconds_or(double otherwise) const { return seconds > 0 ? seconds : otherwise; }
};

// Rows, each a line of text and one of JSON, which are in the file when keep() returns: whoever
// kills the process has what was measured before.
class RowFile {
 public:
  // Throws CheckpointError where the file cannot be written.
  explicit RowFile(const BenchOptions& o);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  void keep(const Row& r);  // prints it too
  void keep_silently(const Row& r);
  // Runs `measure`. What it throws becomes the row's check, printed after "FAILED: " or "OUT OF
  // MEMORY: ", and the answer is false; after a DeviceError, which no kernel survives, it is thrown
  // on.
  bool attempt(Row& r, const std::function<void()>& measure);

 private:
  std::string path_;
  int fd_ = -1;
  Machine machine_;
};

// One line to stdout, there at once.
void say(const std::string& line);

// Calls `one` for each contract that the options name, in the list's order, after "BEGIN name". The
// contract before which the time was over is returned, else an empty text. Throws UsageError for a
// name that no contract has.
std::string walk_contracts(const BenchOptions& o,
                           const std::function<void(const ProblemRow&)>& one);
// Ends a walk: the last line, and the exit code.
int end_walk(bool good, const std::string& left);

int run_probe(const BenchOptions& o);
int run_check(const BenchOptions& o);
int run_ceilings(const BenchOptions& o);
int run_kernels(const BenchOptions& o);

}  // namespace wt::bench
