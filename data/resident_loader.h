// ResidentLoader: batches of a dataset on the device (data/resident.h), by their place in the
// epoch's order. Nothing is sent to the device, and nothing is made ahead: a batch is one launch.
//
//   data::ResidentLoader loader{images, {.batch = 64, .shuffle = true, .seed = 1}};
//   for (auto& [x, y] : loader) ...
//
// With a TrainStep the batch is made inside the step, so that a captured one holds it: epoch and
// place are then two numbers on the device, which the step itself moves on.
//
//   TrainStep step{net, opt, {.graph = true}};
//   loader.step(step, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "warptape/core/batch.h"
#include "warptape/core/factories.h"
#include "warptape/core/frame.h"
#include "warptape/data/loader.h"
#include "warptape/data/resident.h"

namespace wt::data {

namespace detail {
WT_API void check_resident_options(const LoaderOptions& o, i64 samples);
WT_API i64 next_resident_id();
WT_API bool gathers_into_graph();

// Epoch and place on the device, and what the host knows of them.
class WT_API BatchCursor {
 public:
  // Writes it unless it says so already.
  void put(Device d, i64 epoch, i64 place);
  // Queues the step to the next batch; `limit` is the samples that an epoch uses.
  void advance(i64 count, i64 limit);
  // A step that advanced it has been: what it says now.
  void moved_to(i64 epoch, i64 place);
  void unknown() { known_ = false; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  i64 epoch_ = 0, place_ = 0;
  bool known_ = false;
};
}  // namespace detail

// A batch that is made when a step asks for it, or one of its micro-batches.
template <ResidentSet S>
class PendingBatch;

// Batches of a dataset that lies on a device, epoch by epoch: the same ones as a Loader's with
// these options. For one thread.
template <ResidentSet S>
class ResidentLoader {
 public:
  // A batch, as the dataset's batch() gives it.
  using Item = BatchOf<S>;

  // Owns the set. Of `o`, workers, prefetch and device have no effect. Throws UsageError for a
  // sampler (a Loader takes one), an empty set and the options that a Loader refuses.
  explicit ResidentLoader(S set, const LoaderOptions& o = {})
      : set_(std::move(set)), options_(o), id_(detail::next_resident_id()) {
    detail::check_resident_options(o, set_.size());
  }
  ResidentLoader(ResidentLoader&&) noexcept = default;
  ResidentLoader& operator=(ResidentLoader&&) noexcept = default;

  // Batches of an epoch.
  i64 size() const { return detail::batches_of(options_, set_.size()); }
  // The loader's own copy of the dataset.
  const S& dataset() const { return set_; }
  // The options as they were given.
  const LoaderOptions& options() const { return options_; }
  // The position: counts what next() and step() have given.
  const LoaderState& state() const { return state_; }
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist, or
  // in an epoch of another number of samples.
  void set_state(const LoaderState& s) {
    if (s.batch > 0 && s.samples > 0 && s.samples != set_.size())
      detail::size_changed(s, set_.size());
    if (s.epoch < 0 || s.batch < 0 || s.batch > size()) detail::bad_loader_state(s, size());
    state_ = {s.epoch, s.batch, s.batch > 0 ? set_.size() : 0};
  }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  bool next(Item& batch) {
    if (state_.batch >= size()) {
      state_ = {state_.epoch + 1, 0};
      return false;
    }
    batch = set_.batch_at(at(state_));
    state_ = {state_.epoch, state_.batch + 1, set_.size()};
    return true;
  }
  // The batch that next() would give at such a position; nothing moves.
  Item batch_after(const LoaderState& s) const { return set_.batch_at(at(begun(s))); }

  // train(batch, loss_of) of a TrainStep with the next batch, of a new epoch where one is over.
  // The set must be on the model's device. What loss_of is given lives until the step is over.
  // When it throws, the position has not moved.
  template <class Step, class F>
  auto step(Step& train, F&& loss_of, Frame line = Frame::here()) {
    const LoaderState here = begun(state_);
    pending_ = {};
    pending_.at = at(here);
    pending_.through_cursor = train.graph();
    if (pending_.through_cursor) cursor_.put(set_.device(), here.epoch, pending_.at.place);
    const LoaderState after = begun({here.epoch, here.batch + 1, set_.size()});
    try {
      auto result = train(
          PendingBatch<S>(*this, 0, pending_.at.count),
          [&loss_of](const PendingBatch<S>& part) { return loss_of(part.get()); }, line);
      pending_.batch = {};
      if (advances()) cursor_.moved_to(after.epoch, at(after).place);
      state_ = {here.epoch, here.batch + 1, set_.size()};
      return result;
    } catch (...) {
      pending_.batch = {};
      cursor_.unknown();
      throw;
    }
  }

  // Iterator, begin() and end() are for a range-for over what is left of the running epoch.
  using Iterator = detail::LoaderIterator<ResidentLoader>;
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class PendingBatch<S>;
  // The batch of the step under way, once it is made.
  struct Pending {
    BatchAt at{};
    Item batch{};
    bool through_cursor = false, made = false, recorded = false;
  };

  // The step itself moves the cursor on. A rank's part of each batch does not follow its part of
  // the one before, and its place is written before each step: 16 bytes.
  bool advances() const { return pending_.through_cursor && options_.world == 1; }
  LoaderState begun(const LoaderState& s) const {
    return s.batch < size() ? s : LoaderState{s.epoch + 1, 0};
  }
  BatchAt at(const LoaderState& s) const {
    const detail::BatchPart part = detail::batch_part(options_, set_.size(), s.batch);
    return {options_.shuffle, options_.seed, s.epoch, part.begin, part.count};
  }
  // Once a step, but for a capture: what it recorded has not run, and a step that cannot be
  // captured runs again.
  const Item& made() {
    Pending& p = pending_;
    const bool recording = detail::gathers_into_graph();
    if (p.made && p.recorded == recording) return p.batch;
    p.made = false;
    BatchAt at = p.at;
    if (p.through_cursor) at.cursor = cursor_.tensor();
    p.batch = set_.batch_at(at);
    if (advances())
      cursor_.advance(at.count, options_.drop_last ? size() * options_.batch : set_.size());
    p.made = true;
    p.recorded = recording;
    return p.batch;
  }

  S set_;
  LoaderOptions options_;
  LoaderState state_;
  i64 id_;
  detail::BatchCursor cursor_;
  Pending pending_;
};

// A batch that is made when a step asks for it, or one of its micro-batches: samples [begin, begin
// + n) of the batch of the step under way. What ResidentLoader::step() hands to a TrainStep.
template <ResidentSet S>
class PendingBatch {
 public:
  // Samples [begin, begin + n) of the loader's pending batch; the loader must outlive it.
  PendingBatch(ResidentLoader<S>& l, i64 begin, i64 n) : loader_(&l), begin_(begin), n_(n) {
    // Nothing to move or to copy; a step keeps a graph for each kind of batch, which it tells by
    // the shapes of their tensors: another loader's batch, or one of another size, is another kind.
    kind_ = empty({0, l.id_, n}, {.dtype = DType::u8, .device = l.set_.device()});
  }
  // Samples of this part.
  i64 size() const { return n_; }
  // An empty tensor, whose shape tells batches of other loaders and sizes apart: nothing is moved.
  std::array<Tensor*, 1> tensors() { return {&kind_}; }
  // Samples [begin, begin + n) of this part, still not made.
  PendingBatch narrow(i64 begin, i64 n) const {
    PendingBatch part = *this;
    part.begin_ += begin;
    part.n_ = n;
    return part;
  }
  // The part's samples; the first call of a step makes the whole batch.
  typename ResidentLoader<S>::Item get() const {
    const auto& whole = loader_->made();
    if (n_ == loader_->pending_.at.count) return whole;
    return wt::detail::narrow_batch(whole, begin_, n_);
  }

 private:
  ResidentLoader<S>* loader_;
  i64 begin_, n_;
  Tensor kind_;
};

}  // namespace wt::data
