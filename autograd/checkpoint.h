// Activation checkpointing: a part of the model whose backward computes the activations again
// instead of holding them (Chen et al., 2016).
//
//   for (Block& b : blocks) x = checkpoint([b](const Tensor& x) mutable { return b(x); }, x);
//
// It is a policy of the saved slots, not a nested backward: the nodes recorded inside are ordinary
// ones whose slots hold no tensor. The first slot that a backward asks for runs the function again
// and fills the slots of all of them; each is dropped after its node's backward. Gradients of every
// order are those of the same model without checkpoint(), bit for bit where kernels are.
//
// The second run has the first one's mode (stream, variants, determinism, module, autocast) and its
// random draws, and writes nothing that was there before the function began: running statistics
// change once. What the function reads must be as it was: a change of an input or of a leaf
// (parameter) throws InplaceError, a function that does something else UsageError.
#pragma once
#include <concepts>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "warptape/core/in.h"

namespace wt {
namespace detail {
using CheckpointFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
WT_API std::vector<Tensor> checkpoint(CheckpointFunction f, std::vector<Tensor> inputs);

template <class R, class F, size_t... I>
std::vector<Tensor> call_checkpointed(F& f, std::span<const Tensor> in, std::index_sequence<I...>) {
  if constexpr (std::is_same_v<R, Tensor>)
    return {f(in[I]...)};
  else
    return f(in[I]...);
}
}  // namespace detail

// f(inputs...), a Tensor or std::vector<Tensor>, with the activations of f recomputed in backward.
// f is copied and kept until the graph dies: capture modules by value (a copy shares parameters),
// and by reference only what lives as long. Inputs are held; tensors that f captures get their
// gradients too.
template <class F, std::same_as<Tensor>... T>
auto checkpoint(F f, const T&... inputs) {
  using R = std::invoke_result_t<F&, const T&...>;
  static_assert(std::is_same_v<R, Tensor> || std::is_same_v<R, std::vector<Tensor>>,
                "the function returns a Tensor or a std::vector<Tensor>");
  std::vector<Tensor> out = detail::checkpoint(
      [f = std::move(f)](std::span<const Tensor> in) mutable {
        return detail::call_checkpointed<R>(f, in, std::index_sequence_for<T...>());
      },
      {inputs...});
  if constexpr (std::is_same_v<R, Tensor>)
    return std::move(out[0]);
  else
    return out;
}

// A checkpointed function is running for the second time: what it does to the outside is ignored.
WT_API bool recomputing();

namespace detail {
// For the prologue: remembers the leaves that a checkpointed function reads.
void note_operands(const In* const* in, int n);
}  // namespace detail
}  // namespace wt
