// Loader: batches of a dataset, epoch by epoch, in an order that depends on (seed, epoch) alone.
//
//   for (auto& [x, y] : data::Loader{data::FashionMnist{root}, {.batch = 64, .shuffle = true}}) ...
//
// A batch is what the dataset's batch() gives: data::Batch, or any type that has a default. The
// loader owns the dataset it is given. With `workers` threads the batches are made ahead of their
// use; which batch comes when, and every bit of it, is the same for any number of workers.
//
// A dataset may change between epochs: its size is read when an epoch's first batch is asked for.
// If its size or its version() (data/dataset.h) changes before the epoch's last batch, the next one
// throws UsageError: what an order of other samples means, and which batches were made before the
// change, would be luck.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "warptape/data/dataset.h"
#include "warptape/data/sampler.h"

namespace wt::data {

struct LoaderOptions {
  i64 batch = 32;
  bool shuffle = false;
  u64 seed = 0;
  bool drop_last = false;  // leave out a last batch that is not full
  // Threads that call the dataset's batch(), several at a time; 0: the caller's own. They pay where
  // a sample costs something (a file, decoding); tensors in memory are faster without.
  int workers = 0;
  int prefetch = 2;  // batches that each worker may be ahead
  // Which samples an epoch has and in which order, instead of `shuffle` and `seed`.
  Sampler sampler = {};
};

// Where a loader is: the checkpoint keeps it.
struct LoaderState {
  i64 epoch = 0;
  i64 batch = 0;    // batches already given in this epoch
  i64 samples = 0;  // of the dataset when the epoch began; 0: it has not begun, or as many as now
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

// The samples of one epoch in order: 0..n-1, or the permutation of permutation_key(seed, epoch)
// (core/permutation.h), which kernels compute where they gather.
WT_API std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch);
namespace detail {
WT_API void check_loader_options(const LoaderOptions& o);
// The samples of an epoch of a dataset of n. Throws IndexError for a sampler's outside [0, n),
// UsageError where there is no batch or a sampler gives other than `sampled` samples (-1: any).
WT_API std::vector<i64> loader_order(const LoaderOptions& o, i64 n, i64 sampled, i64 epoch);
WT_API i64 batches_of(const LoaderOptions& o, i64 samples);
[[noreturn]] WT_API void bad_loader_state(const LoaderState& s, i64 batches);
// The dataset changed in the middle of an epoch.
[[noreturn]] WT_API void size_changed(const LoaderState& s, i64 samples);
[[noreturn]] WT_API void version_changed(const LoaderState& s);

// A batch whose type only the Loader knows.
struct AnyBatch {
  virtual ~AnyBatch() = default;
};
template <class B>
struct Made final : AnyBatch {
  explicit Made(B b) : batch(std::move(b)) {}
  B batch;
};

// Threads that make numbered batches ahead and give them out in order. For one thread, but for what
// its own threads do. In a process that was forked off later its threads are missing: start(),
// take(), running() and cancel() throw UsageError there.
class WT_API BatchPool {
 public:
  // Each works in a copy of this thread's mode (core/mode.h), which forks the generator, without
  // recording and out of an InferenceMode. At most `ahead` batches wait.
  BatchPool(int workers, int ahead);
  ~BatchPool();  // joins
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  // From now on take() gives make(first), make(first + 1), ... make(end - 1). What is being made
  // for an earlier call is thrown away when it is done.
  void start(std::function<std::unique_ptr<AnyBatch>(i64)> make, i64 first, i64 end);
  // Waits for the next one. Rethrows what its make() threw; then the pool is idle until start().
  std::unique_ptr<AnyBatch> take();
  bool running() const;
  void cancel();

 private:
  struct Shared;
  void check_process() const;
  void join() noexcept;
  std::unique_ptr<Shared> shared_;
  const i64 owner_;  // the process
};
}  // namespace detail

template <Dataset D>
class Loader {
 public:
  using Item = BatchOf<D>;  // a batch
  static_assert(std::default_initializable<Item>, "Loader: a batch needs a default constructor");

  // Throws UsageError for options that make no sense and for a sampler beside shuffle, IndexError
  // for samples that the dataset does not have.
  Loader(D dataset, const LoaderOptions& o = {}) : options_(o) {
    detail::check_loader_options(o);
    dataset_ = std::make_shared<const D>(std::move(dataset));
    begin_epoch(dataset_now());
    if (o.workers > 0)
      pool_ = std::make_unique<detail::BatchPool>(o.workers, o.workers * o.prefetch);
  }

  // Batches of the epoch; before its first one, of the dataset as it is now.
  i64 size() const { return batches_of_epoch(state_); }
  const D& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }
  // Counts what next() has given, not what workers have made.
  const LoaderState& state() const { return state_; }
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist. A
  // position in an epoch over a dataset of another size is refused by next().
  void set_state(const LoaderState& s) {
    LoaderState at = s;
    if (at.batch == 0)
      at.samples = 0;
    else if (at.samples == 0)
      at.samples = i64(dataset_->size());
    if (at.epoch < 0 || at.batch < 0 || at.samples < 0 ||
        (at.batch > 0 && at.batch > batches_of_epoch(at)))
      detail::bad_loader_state(s, batches_of_epoch(at));
    state_ = at;
    if (pool_) pool_->cancel();
  }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  // Rethrows what the dataset threw, in a worker too, or the sampler: the position has not moved,
  // so the next call tries the same batch again. Throws IndexError, before anything is read, for
  // samples that the dataset does not have, and UsageError for a sampler's epoch of another length
  // and for a dataset that changed after the epoch's first batch: put it back as it was, or
  // set_state() to the beginning of an epoch.
  bool next(Item& batch) {
    if (state_.batch > 0 && state_.batch >= size()) {
      state_ = {state_.epoch + 1, 0};
      return false;
    }
    const Basis now = dataset_now();
    if (state_.batch > 0 && now.samples != state_.samples)
      detail::size_changed(state_, now.samples);
    if (now != basis_) {
      if (state_.batch > 0 && begun_ && now.epoch == basis_.epoch && now.samples == basis_.samples)
        detail::version_changed(state_);
      begin_epoch(now);
    }
    if (!pool_) {
      batch = make(*dataset_, *order_, options_.batch, state_);
    } else {
      if (!pool_->running()) start_workers();
      const std::unique_ptr<detail::AnyBatch> made = pool_->take();
      batch = std::move(static_cast<detail::Made<Item>&>(*made).batch);
    }
    begun_ = true;
    state_ = {state_.epoch, state_.batch + 1, now.samples};
    return true;
  }

  // What is left of the running epoch.
  class Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Loader* l) : loader_(l) { ++*this; }
    Item& operator*() { return batch_; }
    Iterator& operator++() {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    friend bool operator==(const Iterator& i, std::default_sentinel_t) { return !i.loader_; }

   private:
    Loader* loader_;
    Item batch_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  static Item make(const D& dataset, const std::vector<i64>& order, i64 batch, LoaderState at) {
    const i64 begin = at.batch * batch, n = std::min(batch, i64(order.size()) - begin);
    return detail::batch_of(dataset, std::span(order).subspan(size_t(begin), size_t(n)), at.epoch);
  }
  // What the order of an epoch is made from.
  struct Basis {
    i64 epoch, samples;
    u64 version;
    friend bool operator==(const Basis&, const Basis&) = default;
  };
  Basis dataset_now() const {
    return {state_.epoch, i64(dataset_->size()), detail::version_of(*dataset_)};
  }
  i64 batches_of_epoch(const LoaderState& at) const {
    if (options_.sampler) return detail::batches_of(options_, sampled_);
    return detail::batches_of(options_, at.batch > 0 ? at.samples : i64(dataset_->size()));
  }
  void begin_epoch(const Basis& now) {
    order_ = std::make_shared<const std::vector<i64>>(
        detail::loader_order(options_, now.samples, sampled_, now.epoch));
    if (options_.sampler) sampled_ = i64(order_->size());
    basis_ = now;
    begun_ = false;
    if (pool_) pool_->cancel();
  }
  void start_workers() {
    auto make_one = [d = dataset_, order = order_, b = options_.batch,
                     epoch = state_.epoch](i64 k) -> std::unique_ptr<detail::AnyBatch> {
      return std::make_unique<detail::Made<Item>>(make(*d, *order, b, {epoch, k}));
    };
    pool_->start(std::move(make_one), state_.batch, size());
  }

  std::shared_ptr<const D> dataset_;
  LoaderOptions options_;
  i64 sampled_ = -1;  // what the sampler gives an epoch; -1: not asked yet
  LoaderState state_;
  std::shared_ptr<const std::vector<i64>> order_;
  Basis basis_{};                            // of order_
  bool begun_ = false;                       // a batch of this order has been given
  std::unique_ptr<detail::BatchPool> pool_;  // last: its threads use what is above
};

}  // namespace wt::data
