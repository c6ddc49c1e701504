// ONNX: what a function computes as a file that other programs run, and files of other programs as
// functions. docs/onnx.md has which operators and what of them.
//
//   net.eval();
//   onnx::save("net.onnx", net, {x}, {.input_names = {"image"}, .output_names = {"scores"},
//                                     .dynamic_axes = {{"image", {{0, "batch"}}}}});
//   const auto again = onnx::load("net.onnx", Device::cpu());
//   Tensor y = again(x);
//
// The function runs once on the examples, and the operators that it runs are written down: what it
// does on the host (sizes, branches, numbers) is what it was. Written is opset 17 (kOpset) with
// IR version 8; read are opsets 13 to 22, of the operators that are written.
#pragma once
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/frame.h"
#include "warptape/core/mode.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::onnx {

inline constexpr i64 kOpset = 17, kIrVersion = 8;
inline constexpr i64 kOldestOpset = 13, kNewestOpset = 22;

struct SaveOptions {
  // Of the function's arguments and results, in their order; those that are left out are "input"
  // and "output", of several "input_0", "input_1".
  std::vector<std::string> input_names{};
  std::vector<std::string> output_names{};
  // {{"x", {{0, "batch"}}}}: axis 0 of x may have any size, which the file calls "batch". For this
  // the function runs a second time, with twice the size, and what differs tells what depends on
  // it. Axes of results follow; they may be named here too.
  std::map<std::string, std::map<i64, std::string>> dynamic_axes{};
  // Tensors that the function reads, under the names that they get in the file. Saving a module
  // gives its parameters and buffers; others are "constant", "constant_1", ...
  std::vector<std::pair<std::string, Tensor>> names{};
};

// A module's parameters and buffers, for SaveOptions::names where a function that is no module
// calls it: {.names = onnx::names_of(net)}.
template <class M>
std::vector<std::pair<std::string, Tensor>> names_of(const M& net) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& t : net.state_dict()) all.emplace_back(t.name, t.tensor);
  return all;
}

namespace detail {
using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
WT_API void save(const std::string& path, const Function& f, const std::vector<Tensor>& example,
                 const SaveOptions& o);
// A function's result, whatever it is, as a list.
template <class R>
std::vector<Tensor> listed(R&& r) {
  if constexpr (std::convertible_to<R, Tensor>)
    return {Tensor(std::forward<R>(r))};
  else if constexpr (requires { std::tuple_size<std::remove_cvref_t<R>>::value; })
    return std::apply([](auto&... t) { return std::vector<Tensor>{Tensor(t)...}; }, r);
  else
    return std::vector<Tensor>(r.begin(), r.end());
}
// A module is called from the line that saves it, a function's operators have lines of their own.
template <class F>
struct ModuleLine {
  explicit ModuleLine(Frame) {}
};
template <class F>
requires requires(F& net) { net.state_dict(); }
struct ModuleLine<F> {
  explicit ModuleLine(Frame at) : scope(at) {}
  FrameScope scope;
};
template <class M>
SaveOptions with_names(M& net, SaveOptions o) {
  if constexpr (requires { net.state_dict(); })
    for (auto& t : names_of(net)) o.names.push_back(std::move(t));
  return o;
}
}  // namespace detail

// Writes what `f`, a function or a module, computes of tensors like the examples: as many as it
// takes, on one device, with values. It gives a Tensor or an array, pair, tuple or vector of them.
// Nothing is recorded for backward. Parameters and buffers of a module keep their names.
//
// Throws UsageError where the file cannot say what was computed, and names all operators without a
// form in ONNX at once, with their lines and modules; for what save_graph() refuses too (values on
// the host, random numbers, running statistics that move); for names that stand twice and axes that
// are none; for 2 GiB or more, the most that such a file can have. CheckpointError where the file
// cannot be written. The file that was there is left then, and tensors that the function's
// operators have written over are as before.
template <class F, size_t N>
void save(const std::string& path, F&& f, const Tensor (&example)[N],
          const SaveOptions& options = {}, Frame at = Frame::here()) {
  const auto call = [&f, at](std::span<const Tensor> a) -> std::vector<Tensor> {
    const detail::ModuleLine<F> line(at);
    return [&]<size_t... i>(std::index_sequence<i...>) { return detail::listed(f(a[i]...)); }
    (std::make_index_sequence<N>{});
  };
  detail::save(path, call, std::vector<Tensor>(example, example + N),
               detail::with_names(f, options));
}

// What an ONNX file computes, by the operators of this library. Copies share it; one thread at a
// time may call it. Inputs of any size that the file's operators take.
class WT_API Graph {
 public:
  // Reads a file and puts its constants on `d`. Throws DataError, with file and byte, for what is
  // no whole ONNX model, for more memory than the limits allow, and for operators, attributes,
  // results and dtypes that are not read: all of them, named at once. What depends on the inputs'
  // sizes and dtypes is for run() to refuse. Nothing of such a file is kept.
  static Graph load(const std::string& path, Device d = Device::cpu(),
                    const ParseLimits& limits = {});

  // An axis: a size, or -1 for any.
  struct Slot {
    std::string name;
    DType dtype;
    std::vector<i64> shape;
  };
  std::vector<Slot> inputs() const;
  std::vector<Slot> results() const;
  // The constants with their names: parameters, as PyTorch's exporter and this one name them.
  std::vector<std::pair<std::string, Tensor>> constants() const;
  Device device() const;
  i64 nodes() const;
  const std::string& producer() const;  // "pytorch 2.15"
  i64 opset() const;

  // The results, in the file's order. Nothing is recorded for backward unless an input or a
  // constant requires grad. Throws UsageError for another number of inputs, DtypeError, ShapeError
  // and PlacementError for one that is not what the file says, and what operators throw, of the
  // kind that it has and with the node's name.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, Frame at = Frame::here()) const;
  // Of a graph with one result.
  template <std::same_as<Tensor>... T>
  Tensor operator()(const T&... inputs) const {
    return one({inputs...});
  }

 private:
  struct State;
  explicit Graph(std::shared_ptr<State> state);
  Tensor one(const std::vector<Tensor>& inputs) const;
  std::shared_ptr<State> state_;
};

// The same, as PyTorch users look for it: onnx::load("net.onnx").
inline Graph load(const std::string& path, Device d = Device::cpu(),
                  const ParseLimits& limits = {}) {
  return Graph::load(path, d, limits);
}

}  // namespace wt::onnx
