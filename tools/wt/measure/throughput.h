// Samples a second over batch sizes, and where a larger batch stops paying.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

struct ThroughputPoint {
  i64 batch = 0;
  // A step: the time that one measurement in ten stays below. What else runs on the machine makes
  // steps slower, never faster, and the median with them.
  double seconds = 0;
  double spread = 0;   // of the measurements: (p90 - p10) / median
  i64 peak_bytes = 0;  // of the device, in tensors
  double rate() const { return double(batch) / seconds; }  // samples a second
};

struct Knee {
  size_t at = 0;              // of the points
  size_t best = 0;            // the fastest point
  bool still_rising = false;  // the largest batch gained more than 5 %: the knee may lie beyond
};
// The smallest batch from which on every rate up to the fastest one is at least `share` of it: a
// lucky measurement of a small batch, below which the curve falls again, is no knee, and that it
// falls behind the fastest does not matter. Rates that are not finite and positive count as 0.
// Nothing without a positive rate. Throws UsageError unless 0 < share <= 1.
std::optional<Knee> find_knee(std::span<const double> rates, double share = 0.9);

struct ThroughputOptions {
  TrainOptions train;
  i64 max_batch = 0;     // 0: until memory ends or three doublings gain nothing
  double seconds = 0.5;  // of measurements a batch
  double share = 0.9;    // of the best rate, which the knee has
};
struct Throughput {
  std::string recipe{}, settings{}, device{}, precision{}, item{};
  i64 items_per_sample = 1;
  double share = 0.9;
  std::vector<ThroughputPoint> points{};
  std::string ended{};  // why no larger batch was measured
  std::optional<Knee> knee() const;
};

// 1, 2, 4, ... and, where it is given, `max_batch` last, until `measure` returns nothing (it then
// has put the reason into `ended`).
struct BatchSweep {
  std::vector<ThroughputPoint> points;
  std::string ended;
};
BatchSweep sweep_batches(
    i64 max_batch,
    const std::function<std::optional<ThroughputPoint>(i64 batch, std::string& ended)>& measure);

// Training steps of the recipe over made-up random batches that are there already, on the device
// of the options. Batches whose predicted peak is more than there is (--memory-limit, or what is
// free) are not tried. OutOfMemory where not even one sample fits.
Throughput measure_throughput(const ThroughputOptions& o,
                              const std::function<void(const ThroughputPoint&)>& on_point = {});

// A table with a bar for each batch; the knee is marked and said.
std::string throughput_text(const Throughput& t);
std::string throughput_json(const Throughput& t);  // one line
std::string throughput_page(const Throughput& t);  // HTML

}  // namespace wt::tools
