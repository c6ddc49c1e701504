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
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/batch.h"
#include "warptape/data/dataset.h"
#include "warptape/data/loader_stats.h"

namespace wt::data {

template <class D>
concept SampleSet = !Dataset<D> && std::is_object_v<D> && std::copy_constructible<D> &&
                    requires(const D& d, i64 i) {
  { d.size() } -> std::convertible_to<i64>;
}
&&(
    requires(const D& d, i64 i) { d.get(i); } || requires(const D& d, i64 i) { d.get(i, i); });

namespace detail {

template <SampleSet D>
auto sample_of(const D& d, i64 i, i64 epoch) {
  if constexpr (requires { d.get(i, epoch); })
    return d.get(i, epoch);
  else
    return d.get(i);
}

// [n, ...] from n >= 1 tensors on the cpu. Throws ShapeError, DtypeError, PlacementError; the
// message names the part of the sample.
WT_API Tensor stack_samples(const char* part, std::span<const Tensor* const> samples);
[[noreturn]] WT_COLD WT_API void no_samples_to_stack();
WT_API Tensor numbers_tensor(const std::vector<i64>& v);
WT_API Tensor numbers_tensor(const std::vector<float>& v);
WT_API Tensor numbers_tensor(const std::vector<bool>& v);

// One part of each sample, stacked; part_of(sample) is a Tensor& or a number.
template <class S, class F>
Tensor stack_part(const char* name, std::vector<S>& samples, F part_of) {
  using Part = std::remove_cvref_t<decltype(part_of(samples[0]))>;
  if constexpr (std::same_as<Part, Tensor>) {
    std::vector<const Tensor*> parts;
    parts.reserve(samples.size());
    for (S& s : samples) parts.push_back(&part_of(s));
    return stack_samples(name, parts);
  } else {
    static_assert(std::is_arithmetic_v<Part>, "Loader: a part of a sample is a Tensor or a number");
    using Wide = std::conditional_t<std::same_as<Part, bool>, bool,
                                    std::conditional_t<std::is_integral_v<Part>, i64, float>>;
    std::vector<Wide> numbers;
    numbers.reserve(samples.size());
    for (auto&& s : samples) numbers.push_back(Wide(part_of(s)));
    return numbers_tensor(numbers);
  }
}

template <class S>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

// A batch of at least one sample.
template <class S>
auto stack(std::vector<S> samples) {
  if constexpr (std::is_arithmetic_v<S>) {
    return stack_part("samples", samples, [](S s) { return s; });
  } else if constexpr (std::same_as<S, Tensor>) {
    return stack_part("samples", samples, [](Tensor& s) -> Tensor& { return s; });
  } else if constexpr (is_pair<S>) {
    return Batch{stack_part(
                     "inputs", samples, [](S & s) -> auto& { return s.first; }),
                 stack_part(
                     "targets", samples, [](S & s) -> auto& { return s.second; })};
  } else {
    static_assert(
        wt::detail::TellsTensors<S>,
        "Loader: samples are a Tensor, a number, a pair of them, an array of tensors or a "
        "struct with tensors(); or the dataset has collate(std::vector<Sample>) const");
    std::vector<std::vector<Tensor*>> of_sample(samples.size());
    for (size_t k = 0; k < samples.size(); ++k)
      wt::detail::for_each_tensor(samples[k], [&](Tensor& t) { of_sample[k].push_back(&t); });
    std::vector<Tensor> stacked;
    for (size_t j = 0; j < of_sample[0].size(); ++j)
      stacked.push_back(stack_part("tensors", of_sample,
                                   [j](std::vector<Tensor*>& t) -> Tensor& { return *t.at(j); }));
    for (size_t j = 0; j < stacked.size(); ++j) *of_sample[0][j] = std::move(stacked[j]);
    return std::move(samples[0]);
  }
}

}  // namespace detail

// A dataset whose batches are the stacked samples of another. A Loader makes it by itself; to put
// Subset, collate() and their like above single samples, make it by hand.
template <SampleSet D>
class Stacked {
 public:
  using Sample = decltype(detail::sample_of(std::declval<const D&>(), 0, 0));
  Stacked(D samples) : samples_(std::move(samples)) {}  // NOLINT: implicit by design
  i64 size() const { return i64(samples_.size()); }
  u64 version() const { return detail::version_of(samples_); }
  const D& samples() const { return samples_; }
  bool in_memory() const { return detail::memory_of(samples_) == detail::InMemory::yes; }
  // Throws IndexError, UsageError for no indices.
  auto batch(std::span<const i64> indices, i64 epoch = 0) const {
    if (indices.empty()) detail::no_samples_to_stack();
    std::vector<Sample> samples;
    samples.reserve(indices.size());
    for (i64 i : indices) {
      detail::check_sample("Stacked", i, size());
      samples.push_back(detail::sample_of(samples_, i, epoch));
    }
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
