// Loader: batches of a dataset, epoch by epoch, in an order that depends on (seed, epoch) alone.
//
//   for (auto& [x, y] : data::Loader{data::FashionMnist{root}, {.batch = 64, .shuffle = true}}) ...
//
// It owns the dataset it is given. With `workers` threads the batches are made ahead of their use;
// which batch comes when, and every bit of it, is the same for any number of workers.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "warptape/data/dataset.h"

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
};

// Where a loader is: the checkpoint keeps it.
struct LoaderState {
  i64 epoch = 0;
  i64 batch = 0;  // batches already given in this epoch
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

// The samples of one epoch in order: 0..n-1, or a permutation by Philox stream `shuffle`.
WT_API std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch);
namespace detail {
WT_API void check_loader_options(const LoaderOptions& o, i64 samples);
[[noreturn]] WT_API void bad_loader_state(const LoaderState& s, i64 batches);

// Threads that make numbered batches ahead and give them out in order. For one thread, but for what
// its own threads do.
class WT_API BatchPool {
 public:
  // They work in a copy of this thread's default dtype and device, with gradients off and a
  // generator of their own. At most `ahead` batches wait.
  BatchPool(int workers, int ahead);
  ~BatchPool();  // joins
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  // From now on take() gives make(first), make(first + 1), ... make(end - 1). What is being made
  // for an earlier call is thrown away when it is done.
  void start(std::function<Batch(i64)> make, i64 first, i64 end);
  // Waits for the next one. Rethrows what its make() threw; then the pool is idle until start().
  Batch take();
  bool running() const;
  void cancel();

 private:
  struct Shared;
  void join() noexcept;
  std::unique_ptr<Shared> shared_;
};
}  // namespace detail

template <Dataset D>
class Loader {
 public:
  Loader(D dataset, const LoaderOptions& o = {}) : options_(o) {
    detail::check_loader_options(o, dataset.size());
    dataset_ = std::make_shared<const D>(std::move(dataset));
    if (o.workers > 0)
      pool_ = std::make_unique<detail::BatchPool>(o.workers, o.workers * o.prefetch);
  }

  // Batches an epoch.
  i64 size() const {
    const i64 n = dataset_->size(), b = options_.batch;
    return options_.drop_last ? n / b : (n + b - 1) / b;
  }
  const D& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }
  // Counts what next() has given, not what workers have made.
  const LoaderState& state() const { return state_; }
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist.
  void set_state(const LoaderState& s) {
    if (s.epoch < 0 || s.batch < 0 || s.batch > size()) detail::bad_loader_state(s, size());
    state_ = s;
    order_epoch_ = -1;
    if (pool_) pool_->cancel();
  }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  // Rethrows what the dataset threw, in a worker too: the position has not moved, so the next call
  // tries the same batch again.
  bool next(Batch& batch) {
    if (state_.batch >= size()) {
      state_ = {state_.epoch + 1, 0};
      return false;
    }
    if (order_epoch_ != state_.epoch) {
      order_ = std::make_shared<const std::vector<i64>>(
          epoch_order(dataset_->size(), options_.shuffle, options_.seed, state_.epoch));
      order_epoch_ = state_.epoch;
      if (pool_) pool_->cancel();
    }
    if (!pool_) {
      batch = make(*dataset_, *order_, options_.batch, state_.batch);
    } else {
      if (!pool_->running())
        pool_->start([d = dataset_, order = order_,
                      b = options_.batch](i64 k) { return make(*d, *order, b, k); },
                     state_.batch, size());
      batch = pool_->take();
    }
    ++state_.batch;
    return true;
  }

  // What is left of the running epoch.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Loader* l) : loader_(l) { ++*this; }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    friend bool operator==(const Iterator& i, std::default_sentinel_t) { return !i.loader_; }

   private:
    Loader* loader_;
    Batch batch_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  static Batch make(const D& dataset, const std::vector<i64>& order, i64 batch, i64 k) {
    const i64 begin = k * batch, end = std::min(begin + batch, i64(order.size()));
    return dataset.batch(std::span(order).subspan(size_t(begin), size_t(end - begin)));
  }

  std::shared_ptr<const D> dataset_;
  LoaderOptions options_;
  LoaderState state_;
  std::shared_ptr<const std::vector<i64>> order_;
  i64 order_epoch_ = -1;
  std::unique_ptr<detail::BatchPool> pool_;  // last: its threads use what is above
};

}  // namespace wt::data
