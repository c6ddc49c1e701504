#include "warptape/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "warptape/core/error.h"
#include "warptape/data/draws.h"
#include "warptape/data/loader.h"

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

void check_population(const char* sampler, i64 n) {
  if (n < 1) throw UsageError(str("[", sampler, "] there must be at least 1 sample, got ", n));
}

// The first `samples` of orders of n one after the other, each of which no other epoch has.
std::vector<i64> orders_in_a_row(i64 n, i64 samples, u64 seed, i64 epoch) {
  const i64 rounds = (samples + n - 1) / n;
  std::vector<i64> drawn;
  drawn.reserve(size_t(samples));
  for (i64 r = 0; r < rounds; ++r) {
    const std::vector<i64> order = epoch_order(n, true, seed, epoch * rounds + r);
    drawn.insert(drawn.end(), order.begin(),
                 order.begin() + std::min(n, samples - i64(drawn.size())));
  }
  return drawn;
}

}  // namespace

Sampler sequential_sampler(i64 n) {
  check_population("sequential_sampler", n);
  return [n](i64 epoch) { return epoch_order(n, false, 0, epoch); };
}

Sampler random_sampler(i64 n, const RandomSamplerOptions& o) {
  check_population("random_sampler", n);
  if (o.samples < 0)
    throw UsageError(
        str("[random_sampler] an epoch must have at least 1 sample (0: all), got ", o.samples));
  const i64 samples = o.samples ? o.samples : n;
  if (!o.replacement)
    return
        [n, samples, seed = o.seed](i64 epoch) { return orders_in_a_row(n, samples, seed, epoch); };
  const PhiloxKey key = detail::shuffle_key(o.seed, detail::ShuffleFork::replacement);
  return [n, samples, key](i64 epoch) {
    std::vector<i64> drawn(static_cast<size_t>(samples));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const PhiloxBlock b = philox(key, u64(i), u64(epoch));
      drawn[i] = detail::draw_below(b, n);
    }
    return drawn;
  };
}

Sampler distributed_sampler(i64 n, const DistributedSamplerOptions& o) {
  check_population("distributed_sampler", n);
  if (o.world < 1 || o.rank < 0 || o.rank >= o.world)
    throw UsageError(str("[distributed_sampler] rank ", o.rank, " is not one of a world of ",
                         o.world, ": ranks are 0 to world - 1"));
  const i64 each = o.drop_last ? n / o.world : (n + o.world - 1) / o.world;
  if (each == 0)
    throw UsageError(str("[distributed_sampler] ", n, " samples are less than one for each of ",
                         o.world, " ranks, and drop_last leaves nothing"));
  return [n, each, o](i64 epoch) {
    const std::vector<i64> order = epoch_order(n, o.shuffle, o.seed, epoch);
    std::vector<i64> mine(static_cast<size_t>(each));
    for (i64 i = 0; i < each; ++i) mine[size_t(i)] = order[size_t((i * o.world + o.rank) % n)];
    return mine;
  };
}

Sampler weighted_sampler(const std::vector<double>& weights, i64 samples, u64 seed) {
  if (samples < 1)
    throw UsageError(str("[weighted_sampler] an epoch must have at least 1 sample, got ", samples));
  const auto sums = std::make_shared<const std::vector<double>>(running_sums(weights));
  const PhiloxKey key = detail::shuffle_key(seed, detail::ShuffleFork::weights);
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
