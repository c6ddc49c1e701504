#include "warptape/data/loader.h"

#include <numeric>

#include "warptape/core/philox.h"

namespace wt::data {

std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch) {
  std::vector<i64> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  // Fisher and Yates; the draw for place i depends on (seed, epoch, i) alone.
  const PhiloxKey key = philox_key(seed, RandomStream::shuffle);
  for (i64 i = n - 1; i > 0; --i) {
    const PhiloxBlock b = philox(key, u64(i), u64(epoch));
    const u64 bits = u64(b.v[0]) << 32 | b.v[1];
    std::swap(order[size_t(i)], order[size_t(u64((unsigned __int128)bits * u64(i + 1) >> 64))]);
  }
  return order;
}

namespace detail {

void check_loader_options(const LoaderOptions& o, i64 samples) {
  if (o.batch < 1) throw UsageError(str("[Loader] the batch must be at least 1, got ", o.batch));
  if (samples < 1) throw UsageError("[Loader] the dataset is empty");
  if (o.drop_last && o.batch > samples)
    throw UsageError(str("[Loader] a batch of ", o.batch, " is larger than the data (", samples,
                         " samples) and drop_last leaves nothing"));
}

void bad_loader_state(const LoaderState& s, i64 batches) {
  throw UsageError(str("[Loader] there is no batch ", s.batch, " in epoch ", s.epoch, " (", batches,
                       " batches an epoch)"));
}

}  // namespace detail
}  // namespace wt::data
