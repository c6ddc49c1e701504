// Loader: batches of a dataset, epoch by epoch, in an order that depends on (seed, epoch) alone.
//
//   for (auto& [x, y] : data::Loader{data::FashionMnist{root}, {.batch = 64, .shuffle = true}}) ...
//
// A batch is what the dataset's batch() gives: data::Batch, or any type that has a default. Of a
// dataset that has get() instead, samples are stacked (data/samples.h). The loader owns the dataset
// it is given. With `workers` threads the batches are made ahead of their use; which batch
// comes when, and every bit of it, is the same for any number of workers.
//
// A dataset may change between epochs: its size is read when an epoch's first batch is asked for.
// If its size or its version() (data/dataset.h) changes before the epoch's last batch, the next one
// throws UsageError: what an order of other samples means, and which batches were made before the
// change, would be luck.
//
// What a dataset throws arrives with its origin (batch, epoch, dataset, the samples' indices) and
// as the type that it had.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <typeinfo>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/core/owned.h"
#include "warptape/data/dataset.h"
#include "warptape/data/enumerate.h"
#include "warptape/data/loader_stats.h"
#include "warptape/data/sampler.h"
#include "warptape/data/samples.h"

namespace wt::data {

// For LoaderOptions::workers: none for datasets that say they are in memory, where workers only
// cost; else as many as there are processors and an epoch has batches. Loader::why_workers() says.
inline constexpr int kAuto = -1;

// How a Loader makes batches, in which order and where.
struct LoaderOptions {
  i64 batch = 32;          // samples of one, of all ranks together
  bool shuffle = false;    // an order of its own in each epoch, by (seed, epoch)
  u64 seed = 0;            // of the shuffled order
  bool drop_last = false;  // leave out a last batch that is not full
  // Threads that call the dataset's batch(), several at a time; 0: the caller's own. They pay where
  // a sample costs something (a file, decoding); tensors in memory are faster without.
  int workers = 0;
  int prefetch = 2;  // batches that each worker may be ahead
  // Which samples an epoch has and in which order, instead of `shuffle` and `seed`.
  Sampler sampler = {};
  // Where batches are to be: the next one is copied there while this one is used, on a stream of
  // its own. Batches need tensors() (core/batch.h).
  std::optional<Device> device{};
  // Through page-locked memory: a device's copy runs beside other work from there alone.
  bool pin_memory = true;
  // Of several ranks that share each batch: rank's part of the samples of the whole batch, parts
  // differing by one sample at most. `batch` is that of all, and so are order and position: what a
  // batch has in it does not depend on the number of ranks, and a position holds for any. An
  // epoch's last batch is left out where it has fewer samples than there are ranks.
  i64 rank = 0, world = 1;
  WT_MISNAMED(batch_size, batch);
  WT_MISNAMED(num_workers, workers);
  WT_MISNAMED(prefetch_factor, prefetch);
  WT_MISNAMED_SAYS(collate_fn, "write Loader{data::collate(set, function), {...}}");
  WT_MISNAMED_SAYS(batch_sampler, "write .sampler and .batch");
};

// Where a loader is: the checkpoint keeps it.
struct LoaderState {
  i64 epoch = 0;    // the first one is 0
  i64 batch = 0;    // batches already given in this epoch
  i64 samples = 0;  // of the dataset when the epoch began; 0: it has not begun, or as many as now
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

// The samples of one epoch in order: 0..n-1, or the permutation of permutation_key(seed, epoch)
// (core/permutation.h), which kernels compute where they gather.
WT_API std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch);

namespace detail {
WT_API void check_loader_options(const LoaderOptions& o);
WT_API i64 batches_of(const LoaderOptions& o, i64 samples);
// Places of this rank's samples of batch k in the order of an epoch.
struct BatchPart {
  i64 begin, count;
};
WT_API BatchPart batch_part(const LoaderOptions& o, i64 samples, i64 k);
[[noreturn]] WT_COLD WT_API void bad_loader_state(const LoaderState& s, i64 batches);
// The dataset changed in the middle of an epoch.
[[noreturn]] WT_COLD WT_API void size_changed(const LoaderState& s, i64 samples);

// A batch whose type only the Loader knows.
struct AnyBatch {
  virtual ~AnyBatch() = default;
};
template <class Item>
struct MadeBatch final : AnyBatch {
  explicit MadeBatch(Item b) : batch(std::move(b)) {}
  Item batch;
};

// What makes them.
struct BatchMaker {
  const std::type_info &type, &batch_type;
  const bool tells_tensors;  // tensors() does
  virtual void tensors(AnyBatch& batch, std::vector<Tensor*>& to) const = 0;
  virtual ~BatchMaker() = default;

 protected:
  BatchMaker(const std::type_info& maker, const std::type_info& batch, bool tells)
      : type(maker), batch_type(batch), tells_tensors(tells) {}
};
template <class Item>
void tensors_in(AnyBatch& made, std::vector<Tensor*>& to) {
  if constexpr (wt::detail::TellsTensors<Item>)
    wt::detail::for_each_tensor(static_cast<MadeBatch<Item>&>(made).batch,
                                [&](Tensor& t) { to.push_back(&t); });
}
struct AnySet : BatchMaker {
  const InMemory in_memory;
  virtual i64 size() const = 0;
  virtual u64 version() const = 0;
  virtual Owned<AnyBatch> batch(std::span<const i64> samples, i64 epoch) const = 0;

 protected:
  AnySet(const std::type_info& set, const std::type_info& of_batch, bool tells, InMemory memory)
      : BatchMaker(set, of_batch, tells), in_memory(memory) {}
};

// The batches that are left of a loader's running epoch.
template <class L>
class LoaderIterator {
 public:
  using value_type = typename L::Item;
  using difference_type = std::ptrdiff_t;
  explicit LoaderIterator(L* l) : loader_(l) { ++*this; }
  value_type& operator*() { return batch_; }
  LoaderIterator& operator++() {
    if (!loader_->next(batch_)) loader_ = nullptr;
    return *this;
  }
  friend bool operator==(const LoaderIterator& i, std::default_sentinel_t) { return !i.loader_; }

 private:
  L* loader_;
  value_type batch_;
};

// What a Loader does, whatever its dataset.
class WT_API LoaderCore {
 public:
  LoaderCore(LoaderCore&&) noexcept;
  LoaderCore& operator=(LoaderCore&&) noexcept;
  ~LoaderCore();

  // Batches of the epoch; before its first one, of the dataset as it is now.
  i64 size() const;
  // The options that it was made with; kAuto stays kAuto.
  const LoaderOptions& options() const;
  // The number of threads that make batches; 0: the caller's own makes them.
  int workers() const;
  // Why there are so many workers: "0: the dataset is in memory ...".
  const std::string& why_workers() const;
  // Where the time went since the loader was made or the last reset (data/loader_stats.h).
  LoaderStats stats() const;
  // Begins the times and counts of stats() anew.
  void reset_stats();
  // The place of the next batch. It counts what next() has given, not what workers have made.
  const LoaderState& state() const;
  // The next batch is the one after `s`. Throws UsageError for a position that does not exist. A
  // position in an epoch over a dataset of another size is refused by next().
  void set_state(const LoaderState& s);

 protected:
  LoaderCore(std::shared_ptr<const AnySet> set, const LoaderOptions& o);
  Owned<AnyBatch> take();  // null at the end of the epoch

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace detail

// Batches of the dataset D, epoch by epoch: a range over what is left of the running one.
template <Dataset D>
class Loader : public detail::LoaderCore {
 public:
  using Item = BatchOf<D>;  // a batch
  static_assert(std::default_initializable<Item>, "Loader: a batch needs a default constructor");

  // A loader that owns `dataset` and begins with epoch 0. Throws UsageError for options that make
  // no sense, a sampler beside shuffle and a dataset without samples, IndexError for samples that
  // the dataset does not have, NotAvailable for a device that is not there.
  Loader(D dataset, const LoaderOptions& o = {})
      : Loader(std::make_shared<const Set>(std::move(dataset)), o) {}

  // The dataset that it owns; workers read it at the same time.
  const D& dataset() const { return *dataset_; }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  // Rethrows what the dataset threw, in a worker too, or the sampler: the position has not moved,
  // so the next call tries the same batch again. Throws IndexError, before anything is read, for
  // samples that the dataset does not have, and UsageError for a sampler's epoch of another length
  // and for a dataset that changed after the epoch's first batch: put it back as it was, or
  // set_state() to the beginning of an epoch.
  bool next(Item& batch) {
    const auto taken = take();
    if (taken) batch = std::move(static_cast<Made&>(*taken).batch);
    return bool(taken);
  }

  // An input iterator over batches; each ++ is one next(), with its errors.
  using Iterator = detail::LoaderIterator<Loader>;
  // The first batch of what is left of the running epoch, which is made here.
  Iterator begin() { return Iterator(this); }
  // The end of the epoch.
  std::default_sentinel_t end() const { return {}; }

 private:
  using Made = detail::MadeBatch<Item>;
  struct Set final : detail::AnySet {
    explicit Set(D d)
        : AnySet(typeid(D), typeid(Item), wt::detail::TellsTensors<Item>, detail::memory_of(d)),
          dataset(std::move(d)) {}
    i64 size() const override { return i64(dataset.size()); }
    u64 version() const override { return detail::version_of(dataset); }
    Owned<detail::AnyBatch> batch(std::span<const i64> samples, i64 epoch) const override {
      return Owned<detail::AnyBatch>(new Made(detail::batch_of(dataset, samples, epoch)));
    }
    void tensors(detail::AnyBatch& made, std::vector<Tensor*>& to) const override {
      detail::tensors_in<Item>(made, to);
    }
    D dataset;
  };
  Loader(std::shared_ptr<const Set> set, const LoaderOptions& o)
      : LoaderCore(set, o), dataset_(&set->dataset) {}

  const D* dataset_;  // the core's
};
template <SampleSet D>
Loader(D, const LoaderOptions& = {}) -> Loader<Stacked<D>>;

}  // namespace wt::data
