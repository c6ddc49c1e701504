// Running statistics of normalisations by channels, moved towards those of a batch: one launch
// instead of ten small ones a layer.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// new = (1 - share) old + share batch for the mean and for `unbiased` times the variance, in f64
// and rounded once. batch_mean, batch_var: [samples * C], f32 or f64; of several samples the mean,
// added in their order. old and new: [C], floats that compute; each new one has its old one's
// dtype. share: `momentum`, or, where that is negative, 1 / (count + 1).
// count: one i64, absent (then new_count is, too): new_count = count + 1.
struct RunningStatsArgs {
  View new_mean, new_var, new_count;
  View mean, var, count;
  View batch_mean, batch_var;
  double momentum, unbiased;
  i64 bytes() const {
    return 2 * (new_mean.bytes() + new_var.bytes()) + batch_mean.bytes() + batch_var.bytes();
  }
  i64 flops() const { return 4 * new_mean.numel() + 2 * batch_mean.numel(); }
};
WT_CONTRACT(running_stats, RunningStatsArgs);

}  // namespace wt
