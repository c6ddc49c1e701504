// Samplers: which samples an epoch of a Loader has, and in which order.
//
//   data::Loader loader{set, {.batch = 64, .sampler = data::weighted_sampler(weights, 10'000)}};
#pragma once
#include <functional>
#include <vector>

#include "warptape/core/macros.h"
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

}  // namespace wt::data
