// Samplers: which samples an epoch of a Loader has, and in which order.
//
//   data::Loader loader{set, {.batch = 64, .sampler = data::weighted_sampler(weights, 10'000)}};
//   data::Loader mine{set, {.batch = 64, .sampler = data::distributed_sampler(
//                                            set.size(), {.rank = 1, .world = 4})}};
#pragma once
#include <functional>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/types.h"

namespace wt::data {

// The samples of an epoch in order; some may be missing, some there several times. It must depend
// on the epoch alone and give every epoch equally many: a loader that goes on in the middle of an
// epoch, in this run or in a resumed one, asks once more. It is called on the thread that reads the
// loader.
using Sampler = std::function<std::vector<i64>(i64 epoch)>;

// Every epoch has `samples` draws with replacement, sample i as often as weights[i] is large beside
// their sum: PyTorch's WeightedRandomSampler. A draw depends on (seed, epoch, its place) alone, by
// Philox stream `shuffle`. Throws UsageError for weights that are negative, not finite or all zero,
// and for less than one sample.
WT_API Sampler weighted_sampler(const std::vector<double>& weights, i64 samples, u64 seed = 0);

// 0, 1, ... n - 1, the same in each epoch. Throws UsageError for n < 1.
WT_API Sampler sequential_sampler(i64 n);

// What an epoch of random_sampler() has.
struct RandomSamplerOptions {
  bool replacement = false;  // a sample may come several times in an epoch
  i64 samples = 0;  // of an epoch; 0: n. More than n without replacement: one order after another
  u64 seed = 0;     // of the order or of the draws
  WT_MISNAMED(num_samples, samples);
};
// PyTorch's RandomSampler: samples of [0, n) in an order that depends on (seed, epoch) alone; with
// replacement each is drawn for itself. Without, and with n samples, the order is the one that a
// loader with shuffle and the seed has. Throws UsageError for n < 1 and samples < 0.
WT_API Sampler random_sampler(i64 n, const RandomSamplerOptions& o = {});

// Which part of an epoch distributed_sampler() gives.
struct DistributedSamplerOptions {
  i64 rank = 0, world = 1;  // part `rank` of `world`
  u64 seed = 0;             // of the order, the same on all ranks
  bool shuffle = true;      // anew in each epoch, without being told
  // All ranks have equally many samples: with drop_last those that are left over are in no rank's
  // part, else the first samples of the order are there twice.
  bool drop_last = false;
  WT_MISNAMED(num_replicas, world);
};
// PyTorch's DistributedSampler without its set_epoch(): the part of rank `rank` of `world`, every
// world-th sample of the epoch's order from its own number on. Parts do not overlap, but for what
// fills the last round. Throws UsageError for n < 1, a rank outside [0, world), and where drop_last
// leaves nothing.
WT_API Sampler distributed_sampler(i64 n, const DistributedSamplerOptions& o);

}  // namespace wt::data
