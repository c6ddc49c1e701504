// Loader: batches of a dataset, epoch by epoch, in an order that depends on (seed, epoch) alone.
//
//   for (auto& [x, y] : data::Loader{data::FashionMnist{root}, {.batch = 64, .shuffle = true}}) ...
//
// A batch is what the dataset's batch() gives: data::Batch or another type (core/batch.h). The
// loader owns the dataset it is given. With `workers` threads the batches are made ahead of their
// use; which batch comes when, and every bit of it, is the same for any number of workers.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "warptape/core/batch.h"
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
  i64 batch = 0;  // batches already given in this epoch
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

// The samples of one epoch in order: 0..n-1, or a permutation by Philox stream `shuffle`.
WT_API std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch);
namespace detail {
WT_API void check_loader_options(const LoaderOptions& o, i64 samples);
// Throws UsageError if an epoch of that many samples has no batch.
WT_API void check_epoch(const LoaderOptions& o, i64 samples);
// What o.sampler gives. Throws IndexError for samples outside [0, n).
WT_API std::vector<i64> sampled_order(const LoaderOptions& o, i64 n, i64 epoch);
// The samples of an epoch. Throws UsageError where a sampler does not give `samples` of them.
WT_API std::vector<i64> loader_order(const LoaderOptions& o, i64 n, i64 samples, i64 epoch);
[[noreturn]] WT_API void bad_loader_state(const LoaderState& s, i64 batches);

// A batch whose type only the Loader knows.
struct AnyBatch {
  virtual ~AnyBatch() = default;
  std::vector<Tensor*> tensors{};  // the defined ones: their memory is counted
};
template <class B>
struct Made final : AnyBatch {
  explicit Made(B b) : batch(std::move(b)) {
    wt::detail::for_each_tensor(batch, [&](Tensor& t) {
      if (t.defined()) tensors.push_back(&t);
    });
  }
  B batch;
};

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
  void start(std::function<std::unique_ptr<AnyBatch>(i64)> make, i64 first, i64 end);
  // Waits for the next one. Rethrows what its make() threw; then the pool is idle until start().
  std::unique_ptr<AnyBatch> take();
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
  using Item = BatchOf<D>;  // a batch
  static_assert(std::default_initializable<Item>, "Loader: a batch needs a default constructor");
  // Refused, not taken as a batch without tensors: with workers the memory of its tensors would
  // pile up at the caller's, and nothing would say so before it runs out.
  static_assert(wt::detail::TellsTensors<Item>,
                "Loader: a batch must tell its tensors: give its type a member "
                "`auto tensors() { return std::array{&x, &y}; }`, or use std::array<Tensor, N>");

  // Throws UsageError for options that make no sense and for a sampler beside shuffle, IndexError
  // for samples that the dataset does not have.
  Loader(D dataset, const LoaderOptions& o = {}) : options_(o), samples_(dataset.size()) {
    detail::check_loader_options(o, samples_);
    if (o.sampler) {
      order_ = std::make_shared<const std::vector<i64>>(detail::sampled_order(o, samples_, 0));
      order_epoch_ = 0;
      samples_ = i64(order_->size());
    }
    detail::check_epoch(o, samples_);
    dataset_ = std::make_shared<const D>(std::move(dataset));
    if (o.workers > 0)
      pool_ = std::make_unique<detail::BatchPool>(o.workers, o.workers * o.prefetch);
  }

  // Batches an epoch: as many in every one.
  i64 size() const {
    const i64 b = options_.batch;
    return options_.drop_last ? samples_ / b : (samples_ + b - 1) / b;
  }
  const D& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }
  // Counts what next() has given, not what workers have made.
  const LoaderState& state() const { return state_; }
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist.
  void set_state(const LoaderState& s) {
    if (s.epoch < 0 || s.batch < 0 || s.batch > size()) detail::bad_loader_state(s, size());
    state_ = s;
    if (pool_) pool_->cancel();
  }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  // Rethrows what the dataset threw, in a worker too, or the sampler: the position has not moved,
  // so the next call tries the same batch again. Throws IndexError, before anything is read, for
  // samples that the dataset does not have, and UsageError for an epoch of another length.
  bool next(Item& batch) {
    if (state_.batch >= size()) {
      state_ = {state_.epoch + 1, 0};
      return false;
    }
    if (order_epoch_ != state_.epoch) {
      order_ = std::make_shared<const std::vector<i64>>(
          detail::loader_order(options_, dataset_->size(), samples_, state_.epoch));
      order_epoch_ = state_.epoch;
      if (pool_) pool_->cancel();
    }
    if (!pool_) {
      batch = make(*dataset_, *order_, options_.batch, state_);
    } else {
      if (!pool_->running()) start_workers();
      const std::unique_ptr<detail::AnyBatch> made = pool_->take();
      batch = std::move(static_cast<detail::Made<Item>&>(*made).batch);
    }
    ++state_.batch;
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
    const i64 begin = at.batch * batch, end = std::min(begin + batch, i64(order.size()));
    return detail::batch_of(dataset, std::span(order).subspan(size_t(begin), size_t(end - begin)),
                            at.epoch);
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
  i64 samples_;  // an epoch
  LoaderState state_;
  std::shared_ptr<const std::vector<i64>> order_;
  i64 order_epoch_ = -1;
  std::unique_ptr<detail::BatchPool> pool_;  // last: its threads use what is above
};

}  // namespace wt::data
