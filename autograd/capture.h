// A function that is captured once and replayed from then on.
//
//   auto predict = capture([&](const Tensor& x) { return softmax(net(x), -1); }, example);
//   Tensor p = predict(batch);   // one launch, from the third call with a shape on
//
// The first call runs the function as it is, the second one too, with the memory that the graph
// will have; the third one captures it (core/graph.h) and replays, as all later ones do: arguments
// are copied into the graph's own, the function is not called, and its results appear where they
// did before. So what the function does on the host (branches, sizes, numbers, prints) happens in
// the capture for the last time. It may do what it likes on the device: gradients, updates,
// dropout.
#pragma once
#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/frame.h"
#include "warptape/core/tensor.h"

namespace wt {

struct CaptureOptions {
  i64 max_shapes = 8;  // sets of argument shapes, each with a graph of its own
};

namespace detail {

// What the captured functions of all signatures share.
class WT_API CapturedCalls {
 public:
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  CapturedCalls(Function f, std::vector<Tensor> example, const CaptureOptions& o, Frame at);
  ~CapturedCalls();
  std::vector<Tensor> call(std::vector<Tensor> arguments, Frame at);

  struct Entry;
  class Draws;
  struct Guard {
    DType dtype;
    int ndim;
  };
  Device device;
  std::string why_eager{};
  i64 captures() const;
  i64 memory_bytes() const;

 private:
  void check(const std::vector<Tensor>& arguments, Frame at) const;
  Entry& entry_of(const std::vector<Tensor>& arguments, Frame at);
  std::vector<Tensor> run(const std::vector<Tensor>& arguments) const;
  std::vector<Tensor> warm_up(Entry& e);
  std::vector<Tensor> first_replay(Entry& e, Frame at);
  std::vector<Tensor> replay(Entry& e, Frame at);
  std::vector<Tensor> eagerly(Entry& e, const std::string& why, Frame at);

  Function function_;
  CaptureOptions options_;
  std::vector<Guard> guards_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool has_run_ = false;
  Tensor call_base_;     // where dropout's calls are counted from, on the device
  i64 base_there_ = -1;  // what it holds when all that is queued has run; -1: not known
};

// Between a function's results and a list of tensors.
template <class R>
struct ResultList {
  static std::vector<Tensor> list(R r) {
    if constexpr (std::convertible_to<R, Tensor>) {
      return {Tensor(std::move(r))};
    } else if constexpr (requires { std::tuple_size<R>::value; }) {
      return std::apply([](auto&... t) { return std::vector<Tensor>{Tensor(t)...}; }, r);
    } else {
      return std::vector<Tensor>(r.begin(), r.end());
    }
  }
  static auto back(std::vector<Tensor> all) {
    if constexpr (std::convertible_to<R, Tensor>) {
      return std::move(all[0]);
    } else if constexpr (requires { std::tuple_size<R>::value; }) {
      return [&]<size_t... i>(std::index_sequence<i...>) { return R{std::move(all[i])...}; }
      (std::make_index_sequence<std::tuple_size<R>::value>{});
    } else {
      return all;
    }
  }
};
template <>
struct ResultList<void> {
  static void back(const std::vector<Tensor>&) {}
};
template <size_t>
using ArgumentTensor = const Tensor&;

}  // namespace detail

// What capture() returns. Copies share their graphs; one thread at a time may call it.
template <class R, class Indices>
class Captured;
template <class R, size_t... i>
class Captured<R, std::index_sequence<i...>> {
 public:
  explicit Captured(std::shared_ptr<detail::CapturedCalls> calls) : calls_(std::move(calls)) {}

  // The results of a replay lie in the graph's memory: the next call with the same shapes writes
  // them again, so clone() what is to stay. They have no place on the tape. Throws UsageError for
  // arguments of another dtype, device or number of dimensions than the example's, ShapeError for
  // one set of shapes too many, and what the function throws.
  auto operator()(detail::ArgumentTensor<i>... arguments, Frame at = Frame::here()) const {
    return detail::ResultList<R>::back(calls_->call({Tensor(arguments)...}, at));
  }
  // Sets of shapes that are captured now.
  i64 captures() const { return calls_->captures(); }
  // Memory that the graphs hold on the device, free or not.
  i64 memory_bytes() const { return calls_->memory_bytes(); }
  // Why calls run as they would without a capture, naming operator and line; empty if none does.
  const std::string& why_eager() const { return calls_->why_eager; }

 private:
  std::shared_ptr<detail::CapturedCalls> calls_;
};

// Captures `f`, which takes as many tensors as there are examples and returns a Tensor, an array,
// pair, tuple or vector of them, or nothing. Nothing runs here: the examples say which dtypes,
// device and dimensions calls will have. On the cpu, and where `f` does what a graph cannot hold (a
// value on the host, host memory, the host's random numbers), calls run `f` itself; one warning
// says so, of the latter with operator and line, and why_eager() does.
//
// `f` must read tensors other than its arguments where they are: parameters that have moved
// (Module::to, a new optimizer) are captured anew, a handle that is given another tensor goes
// unnoticed. Throws UsageError for undefined examples, PlacementError for examples on several
// devices or on meta.
template <class F, std::same_as<Tensor>... T>
auto capture(const CaptureOptions& options, F f, const T&... example) {
  using R = std::invoke_result_t<F&, const T&...>;
  auto call = [f = std::move(f)](std::span<const Tensor> a) mutable -> std::vector<Tensor> {
    return [&]<size_t... i>(std::index_sequence<i...>)->std::vector<Tensor> {
      if constexpr (std::is_void_v<R>) {
        f(a[i]...);
        return {};
      } else {
        return detail::ResultList<R>::list(f(a[i]...));
      }
    }
    (std::index_sequence_for<T...>{});
  };
  return Captured<R, std::index_sequence_for<T...>>(std::make_shared<detail::CapturedCalls>(
      std::move(call), std::vector<Tensor>{example...}, options, Frame{}));
}
template <class F, std::same_as<Tensor>... T>
requires(!std::same_as<F, CaptureOptions>) auto capture(F f, const T&... example) {
  return capture(CaptureOptions{}, std::move(f), example...);
}

}  // namespace wt
