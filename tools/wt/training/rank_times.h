// How a run's steps were shared out: each rank's own work, and who made the others wait.
#pragma once
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/tools/wt/training/step_times.h"

namespace wt::tools {

// Of all ranks, on every one of them. Every rank calls it. Where the device waits for others and
// not the host, `own` is all of the time.
std::vector<StepTimes::Shares> gather_shares(dist::Communicator& ranks,
                                             const StepTimes::Shares& mine);

// "ranks' own work: 8.1 to 12.3 ms a step, most by rank 2; 24 % of their time is waiting for
// others". Of two ranks or more.
std::string shares_text(const std::vector<StepTimes::Shares>& ranks);

}  // namespace wt::tools
