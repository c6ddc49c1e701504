// Datasets made of others: a part of one, several one after the other, a random split, batches that
// are made anew.
//
//   auto [train, held_out] = data::random_split(data::Cifar10{root}, {0.9, 0.1}, {.seed = 1});
//   data::Loader loader{train, {.batch = 64, .shuffle = true}};
#pragma once
#include <array>
#include <memory>

#include "warptape/core/scalar.h"
#include "warptape/data/dataset.h"

namespace wt::data {

// Some samples of a dataset, in the order of a list. Owns both; copies share them.
template <Dataset D>
class Subset {
 public:
  // Throws IndexError for an index that the dataset does not have.
  Subset(D dataset, std::vector<i64> indices)
      : Subset(std::make_shared<const D>(std::move(dataset)), std::move(indices)) {}
  // Of a dataset that is shared with others. Throws IndexError as above.
  Subset(std::shared_ptr<const D> dataset, std::vector<i64> indices)
      : dataset_(std::move(dataset)),
        indices_(std::make_shared<const std::vector<i64>>(std::move(indices))) {
    for (i64 i : *indices_) detail::check_sample("Subset", i, dataset_->size());
  }
  // The length of the list.
  i64 size() const { return i64(indices_->size()); }
  // Whether the dataset says that it is in memory.
  bool in_memory() const { return detail::memory_of(*dataset_) == detail::InMemory::yes; }
  // The dataset's version; 0 where it has none.
  u64 version() const { return detail::version_of(*dataset_); }
  // The list: place in the subset to index in the dataset.
  const std::vector<i64>& indices() const { return *indices_; }
  // The whole dataset.
  const D& dataset() const { return *dataset_; }
  // What the dataset's batch() gives for the samples at these places of the list. Throws
  // IndexError, also where the dataset has become too small, and what the dataset throws.
  BatchOf<D> batch(std::span<const i64> samples, i64 epoch = 0) const {
    std::vector<i64> of_dataset;
    of_dataset.reserve(samples.size());
    const i64 n = dataset_->size();  // it may have become smaller
    for (i64 i : samples) {
      detail::check_sample("Subset", i, size());
      of_dataset.push_back((*indices_)[size_t(i)]);
      detail::check_sample("Subset", of_dataset.back(), n);
    }
    return detail::batch_of(*dataset_, of_dataset, epoch);
  }

 private:
  std::shared_ptr<const D> dataset_;
  std::shared_ptr<const std::vector<i64>> indices_;
};

// Any dataset of Batch behind one type; copies share it. One of a ResidentSet (data/resident.h) is
// resident, and batch_at() and device() are its own; others throw UsageError there.
class WT_API AnyDataset {
 public:
  // A dataset of any type whose batch() gives a Batch; it is moved in.
  // Its own type is ruled out first: whether it is a dataset depends on whether it can be copied.
  template <class D>
  requires(!std::same_as<D, AnyDataset> && Dataset<D> && std::same_as<BatchOf<D>, Batch>)
      AnyDataset(D dataset)  // NOLINT: implicit by design
      : held_(std::make_shared<const Held<D>>(std::move(dataset))) {}
  // The number of samples that the dataset has now.
  i64 size() const { return held_->size(); }
  // The dataset's version; 0 where it has none.
  u64 version() const { return held_->version(); }
  // Whether the dataset says that it is in memory.
  bool in_memory() const { return held_->in_memory(); }
  // The dataset's own batch, with what it throws.
  Batch batch(std::span<const i64> samples, i64 epoch = 0) const {
    return held_->batch(samples, epoch);
  }
  // Whether the dataset is a ResidentSet, so that device() and batch_at() may be called.
  bool is_resident() const { return held_->is_resident(); }
  // Where a resident dataset lies. Throws UsageError for others.
  Device device() const { return held_->device(); }
  // The batch at a place of an epoch's order, made on the device. Throws UsageError for datasets
  // that are not resident.
  Batch batch_at(const BatchAt& at) const { return held_->batch_at(at); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual i64 size() const = 0;
    virtual u64 version() const = 0;
    virtual bool in_memory() const = 0;
    virtual Batch batch(std::span<const i64> samples, i64 epoch) const = 0;
    virtual bool is_resident() const { return false; }
    virtual Device device() const { detail::not_resident(); }
    virtual Batch batch_at(const BatchAt&) const { detail::not_resident(); }
  };
  template <class D>
  struct Held final : Base {
    explicit Held(D d) : dataset(std::move(d)) {}
    i64 size() const override { return dataset.size(); }
    u64 version() const override { return detail::version_of(dataset); }
    bool in_memory() const override { return detail::memory_of(dataset) == detail::InMemory::yes; }
    Batch batch(std::span<const i64> samples, i64 epoch) const override {
      return detail::batch_of(dataset, samples, epoch);
    }
    bool is_resident() const override { return ResidentSet<D>; }
    Device device() const override {
      if constexpr (ResidentSet<D>)
        return dataset.device();
      else
        return Base::device();
    }
    Batch batch_at(const BatchAt& at) const override {
      if constexpr (ResidentSet<D>)
        return dataset.batch_at(at);
      else
        return Base::batch_at(at);
    }
    D dataset;
  };
  std::shared_ptr<const Base> held_;
};

// Datasets one after the other: PyTorch's ConcatDataset. They may have different types; samples
// that come into one batch must have equal shapes and dtypes (ShapeError, DtypeError). A batch of
// samples of several parts lies on the cpu, one of a single part where that part makes it.
class WT_API Concat {
 public:
  // The parts in this order. Throws UsageError for none.
  explicit Concat(std::vector<AnyDataset> parts);
  // Datasets of Batch, of any types: Concat{first, second}.
  template <class First, class... Rest>
  requires((!std::same_as<First, Concat> || sizeof...(Rest) > 0) && Dataset<First> &&
           (Dataset<Rest> && ...)) explicit Concat(First first, Rest... rest)
      : Concat(std::vector<AnyDataset>{AnyDataset(std::move(first)),
                                       AnyDataset(std::move(rest))...}) {}
  // The sum of the parts' sizes, as they are now.
  i64 size() const;
  // True if all parts say that they are in memory.
  bool in_memory() const;
  // The sum of the parts' versions.
  u64 version() const;
  // Samples [n, ...] by their number over all parts. Throws IndexError, ShapeError or DtypeError
  // for parts that do not fit into one batch, and what the parts throw.
  Batch batch(std::span<const i64> samples, i64 epoch = 0) const;

 private:
  std::vector<i64> ends() const;  // of the parts, counted from the beginning of the first
  std::vector<AnyDataset> parts_;
};

// What random_split() draws by.
struct RandomSplitOptions {
  u64 seed = 0;  // with the number of samples it says which are in which part
};
namespace detail {
// Lengths of the parts: the numbers themselves if they are integers, which must add up to n; else
// fractions with a sum of 1, rounded down, what is left over given to the first parts. Throws
// UsageError.
WT_API std::vector<i64> split_lengths(std::span<const Scalar> parts, i64 n);
WT_API std::vector<std::vector<i64>> split_indices(std::span<const Scalar> parts, i64 n, u64 seed);
}  // namespace detail

// Parts without overlap, drawn by (seed, number of samples) alone: PyTorch's random_split. `parts`
// are integers, lengths that add up to the dataset's size, or else fractions with a sum of 1,
// rounded down, what is left over given to the first parts. Throws UsageError for others.
template <Dataset D, size_t N>
std::array<Subset<D>, N> random_split(D dataset, const Scalar (&parts)[N],
                                      const RandomSplitOptions& o = {}) {
  auto indices = detail::split_indices(parts, dataset.size(), o.seed);
  const auto shared = std::make_shared<const D>(std::move(dataset));
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<Subset<D>, N>{Subset<D>(shared, std::move(indices[I]))...};
  }
  (std::make_index_sequence<N>{});
}

// A dataset with its batches as f makes them. Made by collate().
template <Dataset D, class F>
class Collated {
  using Samples = std::span<const i64>;
  static_assert(std::invocable<const F&, BatchOf<D>> ||
                    std::invocable<const F&, BatchOf<D>, Samples> ||
                    std::invocable<const F&, BatchOf<D>, Samples, i64>,
                "collate: f is called as f(batch), f(batch, samples) or f(batch, samples, epoch), "
                "as const (several workers call it at once), with a batch that it may keep");

 public:
  // The dataset and the function of its batches, both moved in.
  Collated(D dataset, F f) : dataset_(std::move(dataset)), f_(std::move(f)) {}
  // The dataset's number of samples.
  i64 size() const { return dataset_.size(); }
  // The dataset's version; 0 where it has none.
  u64 version() const { return detail::version_of(dataset_); }
  // The dataset without f.
  const D& dataset() const { return dataset_; }
  // f of the dataset's batch, with the samples' indices and the epoch where f takes them. Throws
  // what the dataset and f throw.
  auto batch(std::span<const i64> samples, i64 epoch = 0) const {
    BatchOf<D> batch = detail::batch_of(dataset_, samples, epoch);
    if constexpr (std::invocable<const F&, BatchOf<D>, Samples, i64>)
      return f_(std::move(batch), samples, epoch);
    else if constexpr (std::invocable<const F&, BatchOf<D>, Samples>)
      return f_(std::move(batch), samples);
    else
      return f_(std::move(batch));
  }

 private:
  D dataset_;
  F f_;
};

// A dataset whose batches are f(batch of `dataset`): PyTorch's collate_fn, for padding, masks and
// augmentation of whole batches. What f returns may be of any type that a Loader takes.
//
//   auto padded = data::collate(lines, [](data::Batch b) { return Masked{...}; });
//   auto noisy = data::collate(images, [key](data::Batch b, std::span<const i64> samples,
//                                            i64 epoch) {
//     ... philox(key, u64(samples[i]), u64(epoch)) ...  // key = philox_key(seed, augment)
//   });
//
// f is called as f(batch), f(batch, samples) or f(batch, samples, epoch), whichever it takes, with
// the samples' indices. It must not depend on anything else that changes: workers call it at the
// same time and in any order. So it takes random numbers from (epoch, sample), as above, and not
// from rand() and its like: these would differ from run to run.
template <Dataset D, class F>
Collated<D, F> collate(D dataset, F f) {
  return {std::move(dataset), std::move(f)};
}

}  // namespace wt::data
