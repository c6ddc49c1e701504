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

// A rank's part of samples: those from `begin` on, `count` of them.
struct Share {
  i64 begin, count;  // in samples; count may be 0
};
// This rank's samples of `n`: parts follow each other in the order of ranks and differ by one at
// most. Sends nothing.
WT_API Share share_of(const Communicator& comm, i64 n);

// Makes every metric that of all ranks' samples, to be read or reset. Every rank calls it with the
// same metrics in the same order; waits for the device, and for the ranks. Throws what reading
// throws, NotAvailable for a metric that has no sums(), PeerFailure. With one rank nothing happens.
WT_API void sum_metrics(Communicator& comm, const std::vector<metrics::Metric*>& list);

}  // namespace wt::dist
