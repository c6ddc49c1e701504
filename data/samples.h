// Datasets of single samples: PyTorch's __getitem__.
//
//   struct Squares {
//     i64 size() const { return 100; }
//     std::pair<Tensor, i64> get(i64 i) const { return {full({3}, double(i * i)), i % 2}; }
//   };
//   for (auto& [x, y] : data::Loader{Squares{}, {.batch = 10}}) ...   // x f32 [10, 3], y i64 [10]
//
// A Loader stacks the samples of a batch along a new first axis:
//
//   a sample                                  a batch
//   Tensor; a number                          Tensor [n, ...]; [n], i64, f32 or bool
//   std::pair of the two above; data::Batch   data::Batch
//   std::array<Tensor, N>                     std::array<Tensor, N>
//   a struct with tensors() (core/batch.h)    the same struct, each tensor stacked; what else it
//                                             has is the first sample's
//   any, and the dataset has                  what it returns
//     `collate(std::vector<Sample>) const`
//
// get() may take the epoch as well, `get(i64 i, i64 epoch)`. Tensors that are to be stacked lie on
// the cpu and have equal shapes (ShapeError) and dtypes (DtypeError).
#pragma once
#include <vector>

#include "warptape/core/batch.h"
#include "warptape/core/owned.h"
#include "warptape/data/dataset.h"

namespace wt::data {
namespace detail {

[[noreturn]] WT_COLD WT_API void no_samples_to_stack();

// The parts of samples, made tensors with one row a sample.
class WT_API SampleStack {
 public:
  explicit SampleStack(size_t samples);
  ~SampleStack();
  SampleStack(const SampleStack&) = delete;
  SampleStack& operator=(const SampleStack&) = delete;
  // The next part of the sample; all have parts of the same types. Tensors are kept by address.
  void add(const Tensor& t);
  void add(bool v);
  void add(i64 v);
  void add(float v);
  void next_sample();  // UsageError for other parts than the first sample's
  // The next part of the batch, [n, ...]. Throws ShapeError, DtypeError, PlacementError.
  Tensor take();

 private:
  struct Impl;
  Owned<Impl> impl_;
};

// Adds the time of its scope to the loader's `collate`, from whose `dataset` it is taken.
class WT_API CollateTimer {
 public:
  CollateTimer();
  ~CollateTimer();
  CollateTimer(const CollateTimer&) = delete;
  CollateTimer& operator=(const CollateTimer&) = delete;

 private:
  const i64 begin_;
};

template <class P>
void add_part(SampleStack& to, const P& part) {
  if constexpr (std::same_as<P, Tensor> || std::same_as<P, bool>)
    to.add(part);
  else if constexpr (std::integral<P>)
    to.add(i64(part));
  else
    to.add(static_cast<float>(part));
}

// A batch of at least one sample.
template <class S>
auto stack(std::vector<S> samples) {
  SampleStack parts(samples.size());
  for (auto&& s : samples) {  // of a vector of bool, a proxy
    if constexpr (std::is_arithmetic_v<S>)
      add_part<S>(parts, s);
    else if constexpr (requires {
                         s.first;
                         s.second;
                       })
      add_part(parts, s.first), add_part(parts, s.second);
    else if constexpr (wt::detail::TellsTensors<S>)
      wt::detail::for_each_tensor(s, [&](Tensor& t) { parts.add(t); });
    else
      static_assert(std::same_as<S, Tensor>,
                    "Loader: samples are a Tensor, a number, a pair of them, an array of tensors "
                    "or a struct with tensors(); or the dataset has collate(std::vector<Sample>) "
                    "const");
    parts.next_sample();
  }
  if constexpr (std::is_arithmetic_v<S>) {
    return parts.take();
  } else if constexpr (requires { samples[0].second; }) {
    Tensor x = parts.take();
    return Batch{std::move(x), parts.take()};
  } else {
    wt::detail::for_each_tensor(samples[0], [&](Tensor& t) { t = parts.take(); });
    return std::move(samples[0]);
  }
}

}  // namespace detail

// A dataset whose batches are the stacked samples of another. A Loader makes it by itself; to put
// Subset, collate() and their like above single samples, make it by hand.
template <SampleSet D>
class Stacked {
 public:
  // Owns the dataset of single samples that it is given.
  Stacked(D samples) : samples_(std::move(samples)) {}  // NOLINT: implicit by design
  // The number of samples, as the other dataset says it now.
  i64 size() const { return i64(samples_.size()); }
  // That of the other dataset: another number after each change; 0 where it does not say.
  u64 version() const { return detail::version_of(samples_); }
  // The dataset of single samples.
  const D& samples() const { return samples_; }
  // Whether the other dataset says that its samples lie in memory.
  bool in_memory() const { return detail::memory_of(samples_) == detail::InMemory::yes; }
  // These samples stacked along a new first axis, or what the dataset's collate() makes of them.
  // Throws IndexError; UsageError for no indices and for samples of unlike parts; ShapeError,
  // DtypeError, PlacementError for tensors that differ or are not on the cpu.
  auto batch(std::span<const i64> indices, i64 epoch = 0) const {
    const auto get = [&](i64 i) {
      detail::check_sample("Stacked", i, size());
      if constexpr (requires { samples_.get(i, epoch); })
        return samples_.get(i, epoch);
      else
        return samples_.get(i);
    };
    if (indices.empty()) detail::no_samples_to_stack();
    std::vector<decltype(get(0))> samples;
    samples.reserve(indices.size());
    for (i64 i : indices) samples.push_back(get(i));
    const detail::CollateTimer timer;
    if constexpr (requires { samples_.collate(std::move(samples)); })
      return samples_.collate(std::move(samples));
    else
      return detail::stack(std::move(samples));
  }

 private:
  D samples_;
};

}  // namespace wt::data
