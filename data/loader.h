// Loader: batches of a dataset, epoch by epoch, in an order that depends on (seed, epoch) alone.
//
//   for (auto& [x, y] : data::Loader{data::FashionMnist{root}, {.batch = 64, .shuffle = true}}) ...
//
// It owns the dataset it is given. One thread; worker threads come later.
#pragma once
#include <vector>

#include "warptape/data/dataset.h"

namespace wt::data {

struct LoaderOptions {
  i64 batch = 32;
  bool shuffle = false;
  u64 seed = 0;
  bool drop_last = false;  // leave out a last batch that is not full
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
}  // namespace detail

template <Dataset D>
class Loader {
 public:
  Loader(D dataset, const LoaderOptions& o = {}) : dataset_(std::move(dataset)), options_(o) {
    detail::check_loader_options(o, dataset_.size());
  }

  // Batches an epoch.
  i64 size() const {
    const i64 n = dataset_.size(), b = options_.batch;
    return options_.drop_last ? n / b : (n + b - 1) / b;
  }
  const D& dataset() const { return dataset_; }
  const LoaderOptions& options() const { return options_; }
  const LoaderState& state() const { return state_; }
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist.
  void set_state(const LoaderState& s) {
    if (s.epoch < 0 || s.batch < 0 || s.batch > size()) detail::bad_loader_state(s, size());
    state_ = s;
    order_epoch_ = -1;
  }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  bool next(Batch& batch) {
    if (state_.batch >= size()) {
      state_ = {state_.epoch + 1, 0};
      return false;
    }
    if (order_epoch_ != state_.epoch) {
      order_ = epoch_order(dataset_.size(), options_.shuffle, options_.seed, state_.epoch);
      order_epoch_ = state_.epoch;
    }
    const i64 begin = state_.batch * options_.batch;
    const i64 end = std::min(begin + options_.batch, dataset_.size());
    batch = dataset_.batch(std::span(order_).subspan(size_t(begin), size_t(end - begin)));
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
  D dataset_;
  LoaderOptions options_;
  LoaderState state_;
  std::vector<i64> order_;
  i64 order_epoch_ = -1;
};

}  // namespace wt::data
