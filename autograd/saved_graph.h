// A function that computes without its source: what it launched, in a file.
//
//   net.eval();
//   save_graph("net.wtg", [&](const Tensor& x) { return softmax(net(x), -1); }, example);
//
//   const auto predict = SavedGraph::load("net.wtg", Device::cuda());   // in any program, later
//   Tensor p = predict(batch);
//
// The function runs once on the examples and what it launches is written down, by contract: which
// kernel computes a launch is chosen where the graph runs, so a file that was saved on one device
// loads on every other. Tensors that the function reads and did not make (parameters, buffers)
// become constants of the file. As with wt::capture(), what the function does on the host (sizes,
// branches, numbers) is what it was: a graph is for inputs of the examples' shapes and dtypes.
//
// The file is safetensors with checksums: the constants, and "launches", whose form is this
// library's own (kSavedGraphFormat). It names neither a place of the machine nor a function.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "warptape/autograd/capture.h"
#include "warptape/core/frame.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt {

namespace detail {
using TracedFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
WT_API void save_graph(const std::string& path, const TracedFunction& f,
                       const std::vector<Tensor>& example);
}  // namespace detail

// Runs `f`, which takes as many tensors as there are examples and returns a Tensor or an array,
// pair, tuple or vector of them, and writes what it launched. Nothing is recorded for backward.
// Throws UsageError, naming operator and line, where f does what a file cannot hold: a value on the
// host, a copy between devices, random numbers (dropout in training mode), a write into a tensor
// that was there before (running statistics in training mode), kernels that are not made for it
// (matrix decompositions, scatters, gradients). Throws UsageError for undefined examples,
// PlacementError for examples on several devices or on meta, CheckpointError where the file cannot
// be written; the file that was there is left then.
template <class F, std::same_as<Tensor>... T>
void save_graph(const std::string& path, F f, const T&... example) {
  using R = std::invoke_result_t<F&, const T&...>;
  const auto call = [&f](std::span<const Tensor> a) -> std::vector<Tensor> {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return detail::ResultList<R>::list(f(a[i]...));
    }
    (std::index_sequence_for<T...>{});
  };
  detail::save_graph(path, call, std::vector<Tensor>{example...});
}

// What save_graph() wrote, on a device. Copies share it; one thread at a time may call it.
class WT_API SavedGraph {
 public:
  // Reads the file and puts the constants on `d`. On simt and cuda the third call captures what it
  // launches (core/graph.h) and replays it from then on. Throws DataError, with file and byte, for
  // anything but an undamaged file of this format, or one that needs more memory than
  // limits.max_bytes; NotAvailable where the device has no kernel for a launch; PlacementError for
  // meta. Nothing is left of a graph that cannot be loaded.
  static SavedGraph load(const std::string& path, Device d, const ParseLimits& limits = {});

  // The results, in tensors of their own, contiguous and without a place on the tape. Throws
  // UsageError for another number of inputs, DtypeError, ShapeError or PlacementError for an input
  // that is not like the example it was saved with.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, Frame at = Frame::here()) const;
  // Of a graph with one input and one result.
  Tensor operator()(const Tensor& input, Frame at = Frame::here()) const;

  struct Slot {
    Shape shape;
    DType dtype;
  };
  std::vector<Slot> inputs() const;
  std::vector<Slot> results() const;
  Device device() const;
  i64 launches() const;
  i64 memory_bytes() const;  // of its own: constants, and what lies between launches
  bool replays() const;      // captured: a call is one launch
  // Why calls launch one kernel after the other, where the device has graphs; empty if none does.
  const std::string& why_eager() const;

 private:
  struct State;
  explicit SavedGraph(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace wt
