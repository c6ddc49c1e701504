// Evaluation of which every rank has a part: each sample is counted once, on one rank, and every
// rank reads the whole.
//
//   const auto [begin, count] = dist::share_of(comm, set.size());
//   ... accuracy.update(...) for those samples
//   dist::sum_metrics(comm, {&accuracy, &loss});
//   accuracy.value();                                 // of the whole set, the same on every rank
#pragma once
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/nn/metrics.h"

namespace wt::dist {

// This rank's samples of `n`: parts differ by one at most, some may be empty.
struct Share {
  i64 begin, count;
};
WT_API Share share_of(const Communicator& comm, i64 n);

// Every metric becomes that of all ranks' samples, to be read or reset. Every rank calls it with
// the same metrics in the same order; waits for the device. Throws what reading throws,
// NotAvailable for a metric that has no sums().
WT_API void sum_metrics(Communicator& comm, const std::vector<metrics::Metric*>& list);

}  // namespace wt::dist
