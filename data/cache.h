// A dataset whose samples stay in memory once they were read.
//
//   data::Loader loader{data::cache_in_ram(folder_of_images, {.bytes = i64{8} << 30}),
//                       {.batch = 64, .shuffle = true, .workers = data::kAuto}};
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "warptape/core/batch.h"
#include "warptape/data/dataset.h"
#include "warptape/data/samples.h"

namespace wt::data {

// How much cache_in_ram() keeps.
struct CacheOptions {
  // Bytes of the samples' tensors; keeping books about them takes some tens of bytes a sample more.
  i64 bytes = i64{4} << 30;
};

namespace detail {

struct KeptRows;  // of one sample, byte for byte

// The samples that are kept. All functions from several threads.
class WT_API RowCache {
 public:
  explicit RowCache(i64 limit);
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  // What there is of a batch's samples.
  struct Found {
    std::vector<i64> missing;                           // samples to read, each once
    std::vector<size_t> place;                          // of each sample in `missing`, or kKept
    std::vector<std::shared_ptr<const KeptRows>> kept;  // of each sample, or null
    u64 generation = 0;
    static constexpr size_t kKept = size_t(-1);
  };
  // Forgets everything first when the dataset has another size or version than at the last call.
  Found find(std::span<const i64> samples, i64 size, u64 version);
  // Fills `batch`, undefined tensors, with the rows of at least one sample: the kept ones, and
  // those of `read`, the batch of the samples found missing, which are kept from now on if there is
  // room. Throws ShapeError or DtypeError where rows do not fit into one batch.
  void fill(const Found& found, std::span<const i64> samples, std::span<Tensor* const> read,
            std::span<Tensor* const> batch);
  i64 bytes() const;
  i64 samples() const;

 private:
  // Keeps what copy(k) gives, `each` bytes, for found.missing[k], as long as there is room.
  void keep(const Found& found, i64 each,
            const std::function<std::shared_ptr<const KeptRows>(size_t)>& copy);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// A dataset over another whose samples it keeps. Made by cache_in_ram().
template <Dataset D>
class Cached {
  using Item = BatchOf<D>;
  static_assert(wt::detail::TellsTensors<Item> && std::default_initializable<Item>,
                "cache_in_ram: a batch is a Tensor, an array of tensors or a struct with tensors() "
                "and a default");

 public:
  // An empty cache over `dataset`. Throws UsageError for a negative number of bytes.
  Cached(D dataset, const CacheOptions& o)
      : dataset_(std::make_shared<const D>(std::move(dataset))),
        cache_(std::make_shared<detail::RowCache>(o.bytes)) {}
  // The dataset's number of samples.
  i64 size() const { return i64(dataset_->size()); }
  // The dataset's version; 0 where it has none.
  u64 version() const { return detail::version_of(*dataset_); }
  // The dataset without its cache.
  const D& dataset() const { return *dataset_; }
  // The number of samples that are kept by now.
  i64 cached() const { return cache_->samples(); }
  // Bytes of the kept samples' tensors, at most CacheOptions::bytes.
  i64 cached_bytes() const { return cache_->bytes(); }

  // The samples as the dataset gave them first, [n, ...]; those that are not kept are read now, all
  // in one call. Throws IndexError, ShapeError or DtypeError for rows that do not fit into one
  // batch, PlacementError for tensors that are not on the cpu, and what the dataset throws.
  Item batch(std::span<const i64> samples, i64 epoch = 0) const {
    const i64 n = size();
    for (i64 i : samples) detail::check_sample("Cached", i, n);
    if (samples.empty()) return detail::batch_of(*dataset_, samples, epoch);
    const auto found = cache_->find(samples, n, version());
    Item read, batch;
    if (!found.missing.empty())
      read = detail::batch_of(*dataset_, std::span<const i64>(found.missing), epoch);
    cache_->fill(found, samples, tensors_of(read), tensors_of(batch));
    return batch;
  }

 private:
  static std::vector<Tensor*> tensors_of(Item& item) {
    std::vector<Tensor*> tensors;
    wt::detail::for_each_tensor(item, [&](Tensor& t) { tensors.push_back(&t); });
    return tensors;
  }
  std::shared_ptr<const D> dataset_;
  std::shared_ptr<detail::RowCache> cache_;
};

// `dataset` with its samples kept in memory: an epoch after one that saw them all calls the dataset
// no more. When o.bytes are full, what is kept stays and the other samples are read anew each
// time: an epoch visits every sample once, so throwing old ones out for new ones would find none of
// them again. When the dataset's version() or size() changes, everything is read anew. Copies share
// the samples.
//
// A sample is kept as it was in the epoch that read it first, so augmentation belongs on top of the
// cache. Only tensors are kept, on the cpu, with samples along their first axis and, in one batch,
// of equal shapes. Throws UsageError for a negative number of bytes.
template <Dataset D>
Cached<D> cache_in_ram(D dataset, const CacheOptions& o = {}) {
  return {std::move(dataset), o};
}
template <SampleSet D>
Cached<Stacked<D>> cache_in_ram(D dataset, const CacheOptions& o = {}) {
  return {Stacked<D>(std::move(dataset)), o};
}

}  // namespace wt::data
