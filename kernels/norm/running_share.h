// What kernels/running_stats.h computes for one channel, for host and device.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// count: of the batches before this one.
WT_HD inline double running_share(double momentum, i64 count) {
  return momentum < 0 ? 1 / double(count + 1) : momentum;
}
WT_HD inline double moved_statistic(double old, double batch, double share) {
  return (1 - share) * old + share * batch;
}

}  // namespace wt
