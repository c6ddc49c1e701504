// A training step of a perceptron over ranks that are threads, buckets reduced while backward goes
// on: what `wt bench overlap` times and draws.
#pragma once
#include "warptape/bench/comm_world.h"
#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/perceptron_options.h"
#include "warptape/tools/wt/measure/overlap_timeline.h"

namespace wt::bench {

struct OverlapOptions : PerceptronOptions {
  WorldOptions world{.ranks = 2};
  int steps = 31;   // measured, after 5 that are not
  int threads = 1;  // of kernels
};

// Of the slowest rank.
struct OverlapResult {
  // In turns.
  Timing alone;                     // a step without a reducer, all ranks at once
  Timing communication;             // its buckets, one after the other, and nothing else
  Timing step;                      // both
  Timing exposed;                   // of the step: waited for other ranks
  std::vector<i64> buckets;         // bytes, in the order in which they are begun
  i64 early = 0;                    // of them, begun inside the backward
  tools::OverlapTimeline timeline;  // the step whose time is the median
  // Medians of the step against three times of the same turn:
  double against_floor = 0;     // the larger of the two, which no overlap can beat
  double against_possible = 0;  // what the order of things allows: communication does not begin
                                // before the backward, the last bucket not before its end
  double against_serial = 0;    // the two one after the other
};

// Throws UsageError for options out of range.
OverlapResult measure_overlap(const OverlapOptions& o);

}  // namespace wt::bench
