// What TrainStep asks of a batch that the library has not made: its tensors, the number of its
// samples and a part of them.
//
// A Tensor, or a range of them such as std::array<Tensor, 3>, has samples along the first axis of
// each and needs no more. A type of your own says it by members:
//
//   struct Masked {
//     Tensor ids, mask, y;
//     auto tensors() { return std::array{&ids, &mask, &y}; }
//     i64 size() const { return ids.size(0); }
//     Masked narrow(i64 begin, i64 n) const {
//       return {ids.narrow(0, begin, n), mask.narrow(0, begin, n), y.narrow(0, begin, n)};
//     }
//   };
#pragma once
#include <concepts>
#include <span>
#include <type_traits>

#include "warptape/core/tensor.h"

namespace wt::detail {

// Pointers to tensors, or tensors that live on when the list is gone.
template <class R>
concept TensorList = std::ranges::range<R> &&
    (std::convertible_to<std::ranges::range_reference_t<R>, Tensor*> ||
     (std::same_as<std::ranges::range_reference_t<R>, Tensor&> && std::ranges::borrowed_range<R>));
template <class B>
concept HasTensors = requires(B& batch) {
  { batch.tensors() } -> TensorList;
};
template <class B>
concept PlainTensors = !HasTensors<B> && (std::same_as<B, Tensor> ||
                                          std::same_as<std::ranges::range_reference_t<B>, Tensor&>);

// Its tensors are known.
template <class B>
concept TellsTensors = HasTensors<B> || PlainTensors<B>;
template <class B>
concept TellsSize = PlainTensors<B> || requires(const B& batch) {
  { batch.size() } -> std::convertible_to<i64>;
};
template <class B>
concept Narrows = PlainTensors<B> || requires(const B& batch, i64 n) {
  { batch.narrow(n, n) } -> std::convertible_to<B>;
};

// Calls f(Tensor&) for each tensor, undefined ones too.
template <TellsTensors B, class F>
void for_each_tensor(B& batch, F&& f) {
  if constexpr (std::same_as<B, Tensor>) {
    f(batch);
  } else if constexpr (HasTensors<B>) {
    for (auto&& t : batch.tensors()) {
      if constexpr (std::convertible_to<decltype(t), Tensor*>)
        f(*t);
      else
        f(t);
    }
  } else {
    for (Tensor& t : batch) f(t);
  }
}

// Throws ShapeError unless t has `rows` samples along its first axis.
WT_API void check_rows(const Tensor& t, i64 rows);

// Samples: for plain tensors the first size of the first one, 0 if there is none.
template <TellsSize B>
i64 batch_size(const B& batch) {
  if constexpr (std::same_as<B, Tensor>) {
    return batch.size(0);
  } else if constexpr (PlainTensors<B>) {
    for (const Tensor& t : batch) return t.size(0);
    return 0;
  } else {
    return batch.size();
  }
}

// Samples [begin, begin + n). Throws ShapeError for plain tensors that differ in their first size;
// undefined ones stay so.
template <Narrows B>
B narrow_batch(const B& batch, i64 begin, i64 n) {
  if constexpr (PlainTensors<B>) {
    B part = batch;
    const i64 rows = batch_size(batch);
    for_each_tensor(part, [&](Tensor& t) {
      if (!t.defined()) return;
      check_rows(t, rows);
      t = t.narrow(0, begin, n);
    });
    return part;
  } else {
    return batch.narrow(begin, n);
  }
}

}  // namespace wt::detail
