#include "warptape/data/loader.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "warptape/core/permutation.h"
#include "warptape/data/loader/loader_parts.h"
#include "warptape/data/loader/loader_threads.h"
#include "warptape/data/loader/prefetch.h"

namespace wt::data {

std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch) {
  std::vector<i64> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  const PermutationKey key = permutation_key(seed, u64(epoch));
  for (i64& place : order) place = i64(permute(key, u64(place), u64(n)));
  return order;
}

namespace detail {

void check_loader_options(const LoaderOptions& o) {
  if (o.batch < 1) throw UsageError(str("[Loader] the batch must be at least 1, got ", o.batch));
  if ((o.workers < 0 && o.workers != kAuto) || o.workers > 1024 || o.prefetch < 1 ||
      o.prefetch > 1024)
    throw UsageError(str("[Loader] workers must be 0 to 1024 or kAuto, prefetch 1 to 1024, got ",
                         o.workers, " and ", o.prefetch));
  if (o.world < 1 || o.rank < 0 || o.rank >= o.world)
    throw UsageError(str("[Loader] rank must be in [0, world), got ", o.rank, " of ", o.world));
  if (o.batch < o.world)
    throw UsageError(
        str("[Loader] a batch of ", o.batch, " has no sample for each of ", o.world, " ranks"));
  if (o.sampler && o.shuffle)
    throw UsageError(
        "[Loader] a sampler says the order itself, shuffle has no effect beside it\n  Try one of "
        "the two");
}

i64 batches_of(const LoaderOptions& o, i64 samples) {
  return samples / o.batch + (!o.drop_last && samples % o.batch >= o.world);
}

BatchPart batch_part(const LoaderOptions& o, i64 samples, i64 k) {
  const i64 begin = k * o.batch, n = std::min(o.batch, samples - begin);
  const i64 from = n * o.rank / o.world, to = n * (o.rank + 1) / o.world;
  return {begin + from, to - from};
}

void bad_loader_state(const LoaderState& s, i64 batches) {
  throw UsageError(str("[Loader] there is no batch ", s.batch, " in epoch ", s.epoch, " (", batches,
                       " batches an epoch)"));
}

void size_changed(const LoaderState& s, i64 samples) {
  throw UsageError(str(
      "[Loader] the dataset has ", samples, " samples, it had ", s.samples, " when epoch ", s.epoch,
      " began: its size may change between epochs only\n  Try set_state({.epoch = ", s.epoch + 1,
      "}), which begins the next one"));
}

namespace {

std::vector<i64> sampled_order(const LoaderOptions& o, i64 n, i64 epoch) {
  std::vector<i64> order = o.sampler(epoch);
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] < 0 || order[i] >= n)
      throw IndexError(str("[Loader] the sampler gives sample ", order[i], " at place ", i,
                           " of epoch ", epoch, ", outside [0, ", n, ")"));
  return order;
}

// The samples of an epoch of a dataset of n. Throws IndexError for a sampler's outside [0, n),
// UsageError where there is no batch or a sampler gives other than `sampled` samples (-1: any).
std::vector<i64> loader_order(const LoaderOptions& o, i64 n, i64 sampled, i64 epoch) {
  if (n < 0) throw UsageError(str("[Loader] the dataset says it has ", n, " samples"));
  if (n == 0) throw UsageError("[Loader] the dataset is empty");
  std::vector<i64> order =
      o.sampler ? sampled_order(o, n, epoch) : epoch_order(n, o.shuffle, o.seed, epoch);
  const i64 samples = i64(order.size());
  if (sampled >= 0 && samples != sampled)
    throw UsageError(str("[Loader] the sampler gives ", samples, " samples for epoch ", epoch,
                         ", it gave ", sampled, " for epoch 0: all epochs need equal lengths"));
  if (samples < 1) throw UsageError("[Loader] the sampler gives no samples");
  if (o.drop_last && o.batch > samples)
    throw UsageError(str("[Loader] a batch of ", o.batch, " is larger than the data (", samples,
                         " samples) and drop_last leaves nothing"));
  return order;
}

[[noreturn]] WT_COLD void version_changed(const LoaderState& s) {
  throw UsageError(
      str("[Loader] the dataset's tensors were written to after the first batch of "
          "epoch ",
          s.epoch,
          ": which batches have the change would depend on the workers\n  Try to "
          "write between epochs, or give the dataset clones"));
}

}  // namespace

struct LoaderCore::Impl {
  // How batches are made; copies go to the workers.
  struct Recipe {
    std::shared_ptr<const AnySet> set;
    std::shared_ptr<const std::vector<i64>> order;
    LoaderOptions options;
    i64 epoch;
    std::shared_ptr<DevicePrefetch> to_device;
    std::shared_ptr<LoaderTimes> times;

    Owned<AnyBatch> make(i64 k) const {
      const BatchPart part = batch_part(options, i64(order->size()), k);
      const auto samples = std::span(*order).subspan(size_t(part.begin), size_t(part.count));
      Owned<AnyBatch> item;
      try {
        const StageTimer timer(*times, LoaderStage::dataset);
        item = set->batch(samples, epoch);
      } catch (...) {
        rethrow_with_origin(set->type, samples, {epoch, k});
      }
      if (to_device) to_device->pin(tensors_of(*set, *item));
      return item;
    }
  };

  // What the order of an epoch is made from.
  struct Basis {
    i64 epoch = 0, samples = 0;
    u64 version = 0;
    friend bool operator==(const Basis&, const Basis&) = default;
  };

  std::shared_ptr<const AnySet> set;
  LoaderOptions options;
  WorkerChoice workers{};
  std::shared_ptr<LoaderTimes> times = std::make_shared<LoaderTimes>();
  std::shared_ptr<DevicePrefetch> to_device{};  // null: batches stay where they are made
  BatchAhead ahead{};
  i64 sampled = -1;  // what the sampler gives an epoch; -1: not asked yet
  LoaderState state{};
  std::shared_ptr<const std::vector<i64>> order{};
  Basis basis{};                      // of order
  bool begun = false;                 // a batch of this order has been given
  std::unique_ptr<BatchPool> pool{};  // last: its threads use what is above

  Recipe recipe() const { return {set, order, options, state.epoch, to_device, times}; }
  i64 batches_of_epoch(const LoaderState& at) const {
    if (options.sampler) return batches_of(options, sampled);
    return batches_of(options, at.batch > 0 ? at.samples : set->size());
  }
  Basis set_now() const { return {state.epoch, set->size(), set->version()}; }

  void begin_epoch(const Basis& now) {
    order = std::make_shared<const std::vector<i64>>(
        loader_order(options, now.samples, sampled, now.epoch));
    if (options.sampler) sampled = i64(order->size());
    basis = now;
    begun = false;
    ahead = {};
    if (pool) pool->cancel();
  }
  // Batch k of the running epoch, for which this is called in order; null behind the last.
  Owned<AnyBatch> fetch(i64 k) {
    const i64 end = batches_of_epoch(state);
    if (k >= end) return nullptr;
    if (!pool) return recipe().make(k);
    if (!pool->running()) pool->start([r = recipe()](i64 j) { return r.make(j); }, k, end);
    const StageTimer timer(*times, LoaderStage::worker_wait);
    return pool->take();
  }
  Owned<AnyBatch> fetch_on_device() {
    return next_on_device(
        *to_device, *set, state.batch, ahead, [this](i64 k) { return fetch(k); },
        [this] {
          if (pool) pool->cancel();
        });
  }
};

LoaderCore::LoaderCore(std::shared_ptr<const AnySet> set, const LoaderOptions& o)
    : impl_(new Impl{.set = std::move(set), .options = o}) {
  check_loader_options(o);
  Impl& i = *impl_;
  i.begin_epoch(i.set_now());
  i.workers = choose_workers(o.workers, i.set->in_memory, size());
  if (o.device) {
    if (!i.set->tells_tensors) no_tensors_to_move(i.set->batch_type);
    i.to_device = std::make_shared<DevicePrefetch>(*o.device, o.pin_memory, i.times);
  }
  if (i.workers.workers > 0)
    i.pool = std::make_unique<BatchPool>(i.workers.workers, i.workers.workers * o.prefetch);
}
LoaderCore::LoaderCore(LoaderCore&&) noexcept = default;
LoaderCore& LoaderCore::operator=(LoaderCore&&) noexcept = default;
LoaderCore::~LoaderCore() = default;

i64 LoaderCore::size() const { return impl_->batches_of_epoch(impl_->state); }
const LoaderOptions& LoaderCore::options() const { return impl_->options; }
int LoaderCore::workers() const { return impl_->workers.workers; }
const std::string& LoaderCore::why_workers() const { return impl_->workers.why; }
LoaderStats LoaderCore::stats() const { return impl_->times->stats(); }
void LoaderCore::reset_stats() { impl_->times->reset(); }
const LoaderState& LoaderCore::state() const { return impl_->state; }

void LoaderCore::set_state(const LoaderState& s) {
  Impl& i = *impl_;
  LoaderState at = s;
  if (at.batch == 0)
    at.samples = 0;
  else if (at.samples == 0)
    at.samples = i.set->size();
  if (at.epoch < 0 || at.batch < 0 || at.samples < 0 ||
      (at.batch > 0 && at.batch > i.batches_of_epoch(at)))
    bad_loader_state(s, i.batches_of_epoch(at));
  if (i.pool) i.pool->cancel();
  i.state = at;
  i.ahead = {};
}

Owned<AnyBatch> LoaderCore::take() {
  Impl& i = *impl_;
  const StageTimer timer(*i.times, LoaderStage::next);
  LoaderState& at = i.state;
  if (at.batch > 0 && at.batch >= i.batches_of_epoch(at)) {
    at = {at.epoch + 1, 0};
    return nullptr;
  }
  const auto now = i.set_now();
  if (at.batch > 0 && now.samples != at.samples) size_changed(at, now.samples);
  if (now != i.basis) {
    if (at.batch > 0 && i.begun && now.epoch == i.basis.epoch && now.samples == i.basis.samples)
      version_changed(at);
    i.begin_epoch(now);
  }
  Owned<AnyBatch> item = i.to_device ? i.fetch_on_device() : i.fetch(at.batch);
  i.times->add_batch();
  i.begun = true;
  at = {at.epoch, at.batch + 1, now.samples};
  return item;
}

}  // namespace detail
}  // namespace wt::data
