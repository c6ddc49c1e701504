// A module as a function of its parameters: what a module computes with other tensors in their
// place, to which gradients then flow. MAML's inner step, ensembles and per-sample gradients are
// written with it (docs/functional.md).
//
//   std::vector<Tensor> fast = net.parameters();
//   const auto g = grads(loss(functional_call(net, fast, x), y), fast, {.create_graph = true});
//   for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.01 * g[i];
//   loss(functional_call(net, fast, x2), y2).backward();   // into net's own parameters
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "warptape/core/owned.h"
#include "warptape/nn/module.h"

namespace wt::nn {

namespace detail {
// Tensors in the places of a module's own for as long as it lives. Tied places change together.
class WT_API SwappedTensors {
 public:
  // All parameters in the order of parameters(). Throws UsageError for another number, undefined
  // tensors and those of another shape.
  SwappedTensors(const ModuleBase& net, std::span<const Tensor> parameters, Frame at);
  // By name: all parameters, and any buffers. Throws UsageError with the names that are missing,
  // unexpected or misshapen.
  SwappedTensors(const ModuleBase& net, std::span<const NamedTensor> tensors, Frame at);
  ~SwappedTensors();
  SwappedTensors(const SwappedTensors&) = delete;
  SwappedTensors& operator=(const SwappedTensors&) = delete;

 private:
  void put(const std::shared_ptr<ModuleState>& root, const Tensor& own, const Tensor& other);
  struct Swapped;
  Owned<Swapped> own_;
};
// std::span<T>, whose class no program instantiates that does not call with it: M makes it depend.
template <class T, class M>
using SpanFor = std::span<std::enable_if_t<std::is_class_v<M>, T>>;
}  // namespace detail

// net(x, rest...) with `tensors` in the places of its parameters: either all of them in the order
// of parameters(), or by the names of named_parameters(), where those of named_buffers() may be
// among them (buffers that are not stay the module's own, and its training writes into them).
// Shapes are those of the module; dtypes and devices may be others. The module has its own tensors
// again afterwards, also when the call throws. While the call lasts other threads that use the
// module see the others too. Throws UsageError for another number or other names, all of them told,
// and for tensors that are undefined or of another shape. PyTorch's name:
// torch.func.functional_call, with strict = true.
template <class M, class... Rest>
auto functional_call(const M& net, detail::SpanFor<const Tensor, M> tensors, const In& x,
                     Rest&&... rest) {
  const detail::SwappedTensors swapped(net, tensors, x.frame());
  return net(x, std::forward<Rest>(rest)...);
}
template <class M, class... Rest>
auto functional_call(const M& net, detail::SpanFor<const NamedTensor, M> tensors, const In& x,
                     Rest&&... rest) {
  const detail::SwappedTensors swapped(net, tensors, x.frame());
  return net(x, std::forward<Rest>(rest)...);
}

}  // namespace wt::nn

namespace wt {
// nn::functional_call, beside the operators.
using nn::functional_call;
}  // namespace wt
