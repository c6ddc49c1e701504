#include "warptape/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "warptape/core/error.h"
#include "warptape/core/philox.h"

namespace wt::data {
namespace {

// Sums of weights[0 .. i]. The largest counts as 1, so that no sum overflows or is too small for
// the draws.
std::vector<double> running_sums(const std::vector<double>& weights) {
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw UsageError(str("[weighted_sampler] weight ", i, " is ", weights[i],
                           ": weights must be finite and not negative"));
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0)
    throw UsageError(str("[weighted_sampler] at least one weight must be above 0, got ",
                         weights.size(), " weights that are not"));
  std::vector<double> sums;
  sums.reserve(weights.size());
  double sum = 0;
  for (const double w : weights) sums.push_back(sum += w / largest);
  return sums;
}

}  // namespace

Sampler weighted_sampler(const std::vector<double>& weights, i64 samples, u64 seed) {
  if (samples < 1)
    throw UsageError(str("[weighted_sampler] an epoch must have at least 1 sample, got ", samples));
  const auto sums = std::make_shared<const std::vector<double>>(running_sums(weights));
  // A fork of its own: the order of a shuffled loader with the same seed draws from the first.
  const PhiloxKey key = philox_key(seed, RandomStream::shuffle, 1);
  return [sums, samples, key](i64 epoch) {
    std::vector<i64> drawn(static_cast<size_t>(samples));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const PhiloxBlock b = philox(key, u64(i), u64(epoch));
      // Below the whole sum, and the first sum above it is never that of a weight of 0.
      const double at = uniform53(b.v[0], b.v[1]) * sums->back();
      drawn[i] = std::upper_bound(sums->begin(), sums->end(), at) - sums->begin();
    }
    return drawn;
  };
}

}  // namespace wt::data
