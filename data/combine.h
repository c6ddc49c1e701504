// Datasets made of others: a part of one, several one after the other, a random split.
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
  // Of a dataset that is shared with others.
  Subset(std::shared_ptr<const D> dataset, std::vector<i64> indices)
      : dataset_(std::move(dataset)),
        indices_(std::make_shared<const std::vector<i64>>(std::move(indices))) {
    for (i64 i : *indices_) detail::check_sample("Subset", i, dataset_->size());
  }
  i64 size() const { return i64(indices_->size()); }
  const std::vector<i64>& indices() const { return *indices_; }
  const D& dataset() const { return *dataset_; }
  Batch batch(std::span<const i64> samples) const {
    std::vector<i64> of_dataset;
    of_dataset.reserve(samples.size());
    for (i64 i : samples) {
      detail::check_sample("Subset", i, size());
      of_dataset.push_back((*indices_)[size_t(i)]);
    }
    return dataset_->batch(of_dataset);
  }

 private:
  std::shared_ptr<const D> dataset_;
  std::shared_ptr<const std::vector<i64>> indices_;
};

// Any dataset behind one type; copies share it.
class WT_API AnyDataset {
 public:
  template <Dataset D>
  requires(!std::same_as<D, AnyDataset>) AnyDataset(D dataset)  // NOLINT: implicit by design
      : held_(std::make_shared<const Held<D>>(std::move(dataset))) {}
  i64 size() const { return held_->size(); }
  Batch batch(std::span<const i64> samples) const { return held_->batch(samples); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual i64 size() const = 0;
    virtual Batch batch(std::span<const i64> samples) const = 0;
  };
  template <class D>
  struct Held final : Base {
    explicit Held(D d) : dataset(std::move(d)) {}
    i64 size() const override { return dataset.size(); }
    Batch batch(std::span<const i64> samples) const override { return dataset.batch(samples); }
    D dataset;
  };
  std::shared_ptr<const Base> held_;
};

// Datasets one after the other: PyTorch's ConcatDataset. They may have different types; samples
// that come into one batch must have equal shapes and dtypes (ShapeError, DtypeError) and lie on
// the cpu.
class WT_API Concat {
 public:
  // Throws UsageError for none.
  explicit Concat(std::vector<AnyDataset> parts);
  template <Dataset First, Dataset... Rest>
  requires(!std::same_as<First, Concat> || sizeof...(Rest) > 0) explicit Concat(First first,
                                                                                Rest... rest)
      : Concat(std::vector<AnyDataset>{AnyDataset(std::move(first)),
                                       AnyDataset(std::move(rest))...}) {}
  i64 size() const { return ends_.back(); }
  Batch batch(std::span<const i64> samples) const;

 private:
  std::vector<AnyDataset> parts_;
  std::vector<i64> ends_;  // of the parts, counted from the beginning of the first
};

struct RandomSplitOptions {
  u64 seed = 0;
};
namespace detail {
// Lengths of the parts: the numbers themselves if they are integers, which must add up to n; else
// fractions with a sum of 1, rounded down, what is left over given to the first parts. Throws
// UsageError.
WT_API std::vector<i64> split_lengths(std::span<const Scalar> parts, i64 n);
WT_API std::vector<std::vector<i64>> split_indices(std::span<const Scalar> parts, i64 n, u64 seed);
}  // namespace detail

// Parts without overlap, by lengths or by fractions, drawn by (seed, number of samples) alone.
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

}  // namespace wt::data
