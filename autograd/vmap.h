// vmap: a function of one sample, for all samples of a batch at once.
//
//   const auto outer = vmap([](const Tensor& a, const Tensor& b) { return a * b; });
//   outer(x, y);                                          // [n, ...] of [n, ...] and [n, ...]
//   vmap(f, {.in_dims = {0, std::nullopt}})(x, w);        // w whole for every sample
//   vmap([&](const Tensor& x) { return grad(loss(w, x), w); })(xs);   // a gradient per sample
//
// The function sees one slice: its operators check and differentiate what they would of one.
// Kernels that have a batching rule (elementwise ones, copies, reductions, scans, sorting,
// gathering, softmax, products of matrices, convolutions of mapped images, Fourier transforms) run
// once for all slices; the others run once a slice, and a warning names the operator, once.
// docs/functional.md shows it in use; torch.vmap in PyTorch.
#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

// What random operators do inside: throw, or draw the same numbers for every slice.
enum class Randomness : u8 { error, same };

struct VmapOptions {
  // The axis of each input that is mapped over (negative ones count from the end); nullopt: the
  // function gets the whole input. None given: axis 0 of all.
  std::vector<std::optional<i64>> in_dims{};
  // Where the slices of the outputs are joined.
  i64 out_dim = 0;
  Randomness randomness = Randomness::error;
  // Slices at a time, for functions that need much memory; 0: all.
  i64 chunk_size = 0;
  WT_MISNAMED(out_dims, out_dim);
};

namespace detail {

using SliceFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
WT_API std::vector<Tensor> vmap_call(const SliceFunction& f, std::span<const Tensor> inputs,
                                     const VmapOptions& options, Frame at);

// The results of a function as a list, and back.
template <class R>
struct VmapResult {
  static_assert(std::convertible_to<R, Tensor> || TensorMaker<R>,
                "vmap: the function returns a Tensor, a loss, a std::vector<Tensor>, or a "
                "std::tuple or std::pair of Tensors");
  static std::vector<Tensor> list(R r) {
    if constexpr (TensorMaker<R>)
      return {r.mean(Frame{})};
    else
      return {Tensor(std::move(r))};
  }
  static Tensor from(std::vector<Tensor> l) { return std::move(l[0]); }
};
template <std::same_as<std::vector<Tensor>> R>  // no class: only programs that use it compile it
struct VmapResult<R> {
  static R list(R l) { return l; }
  static R from(R l) { return l; }
};
template <class R, size_t... I>
R tuple_of(std::vector<Tensor>& list, std::index_sequence<I...>) {
  return R(std::move(list[I])...);
}
template <class R>
struct VmapTuple {
  static std::vector<Tensor> list(R r) {
    return std::apply([](auto&... t) { return std::vector<Tensor>{std::move(t)...}; }, r);
  }
  static R from(std::vector<Tensor> l) {
    return tuple_of<R>(l, std::make_index_sequence<std::tuple_size_v<R>>());
  }
};
template <class... T>
struct VmapResult<std::tuple<T...>> : VmapTuple<std::tuple<T...>> {};
template <class A, class B>
struct VmapResult<std::pair<A, B>> : VmapTuple<std::pair<A, B>> {};

template <class F, size_t... I>
auto call_with(const F& f, std::span<const Tensor> in, std::index_sequence<I...>) {
  return f(in[I]...);
}

}  // namespace detail

// The function over slices, to be called with as many tensors as f takes, or with a
// std::span<const Tensor> (or vector) if f takes that. Each result gets an axis of the slices'
// number at `out_dim`; a result that depends on no mapped input is expanded along it.
//
// Inside of f: derivatives by grad(), grads(), jvp() and vmap() itself (four levels) are those of a
// slice; outside, gradients flow through to the inputs and to what f refers to. Throws UsageError
// for values that are read on the host (item(), data(), boolean masks as indices), for writes of
// slices into a tensor that is not mapped, inside of a checkpoint, for random operators unless
// `randomness` allows them, and for a number of in_dims that differs from the inputs', or none that
// maps; ShapeError for mapped axes that differ in size or are not there.
template <class F>
auto vmap(F f, VmapOptions options = {}, Frame at = Frame::here()) {
  if constexpr (std::is_invocable_v<const F&, std::span<const Tensor>>) {
    using Result = detail::VmapResult<std::decay_t<decltype(f(std::span<const Tensor>()))>>;
    return [f = std::move(f), options = std::move(options), at](std::span<const Tensor> inputs) {
      const detail::SliceFunction of_list = [&](std::span<const Tensor> in) {
        return Result::list(f(in));
      };
      return Result::from(detail::vmap_call(of_list, inputs, options, at));
    };
  } else {
    return [f = std::move(f), options = std::move(options),
            at](const std::same_as<Tensor> auto&... inputs) {
      using Result = detail::VmapResult<std::decay_t<decltype(f(inputs...))>>;
      const Tensor list[] = {inputs...};
      const detail::SliceFunction of_list = [&](std::span<const Tensor> in) {
        return Result::list(
            detail::call_with(f, in, std::make_index_sequence<sizeof...(inputs)>()));
      };
      return Result::from(detail::vmap_call(of_list, list, options, at));
    };
  }
}

}  // namespace wt
