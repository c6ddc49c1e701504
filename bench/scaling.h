// Data parallelism by number of ranks, each with a batch of its own size (weak scaling), on ranks
// that are threads; and what PyTorch's two ways cost side by side: the rows of `wt bench scaling`.
#pragma once
#include <functional>
#include <vector>

#include "warptape/bench/comm_world.h"
#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/perceptron_options.h"

namespace wt::bench {

struct ScalingOptions : PerceptronOptions {
  WorldOptions world;  // but its ranks
  std::vector<int> ranks{1, 2, 4, 8};
  int turns = 31;  // measured, after 5 that are not
};

// A turn has all three, from the first rank's begin to the last one's end; one thread a rank.
struct ScalingRow {
  int ranks = 0;
  Timing alone;           // as many ranks compute at once, and nobody sends anything
  Timing buckets;         // dist::DataParallel (PyTorch's DistributedDataParallel)
  Timing replicate;       // as PyTorch's DataParallel (bench/replicate_step.h); none with one rank
  Timing of_alone;        // buckets / alone, of the same turn: a ratio, not us
  double efficiency = 0;  // 1 / its median
  double replicate_efficiency = 0;  // the same of replicate
};

// In the order of o.ranks. Throws UsageError for options out of range.
void measure_scaling(const ScalingOptions& o, const std::function<void(const ScalingRow&)>& each);

}  // namespace wt::bench
