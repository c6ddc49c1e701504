// Gradients as users ask for them: grad(), grads(), hooks on tensors. Tensor::backward() is in
// core/tensor.h.
#pragma once
#include <span>
#include <vector>

#include "warptape/core/in.h"

namespace wt {

struct GradOptions {
  std::vector<Tensor> grad_outputs{};  // default: ones, for one-element outputs
  bool create_graph = false;           // the results can be differentiated again
  bool retain_graph = false;           // implied by create_graph
  bool allow_unused = false;           // inputs that no output depends on: undefined, not an error
};

// Tensors for grads(): one, a loss (its mean), a list in braces, a vector or a span. A parameter
// type: make one only by passing an argument, to which it refers.
class TensorList {
 public:
  TensorList(const Tensor& t) : first_(&t), count_(1) {}  // NOLINT
  TensorList(std::initializer_list<Tensor> list)
      : TensorList(list.begin(), list.size()) {}  // NOLINT
  TensorList(const Tensor* first, size_t count) : first_(first), count_(count) {}
  template <std::convertible_to<std::span<const Tensor>> R>
  TensorList(const R& range) {  // NOLINT
    const std::span<const Tensor> tensors(range);
    first_ = tensors.data();
    count_ = tensors.size();
  }
  template <TensorHolder P>
  TensorList(const P& p) : TensorList(p.tensor()) {}  // NOLINT
  template <TensorMaker L>
  TensorList(const L& loss, Frame at = Frame::here())  // NOLINT
      : made_(loss.mean(at)), first_(&made_), count_(1) {}
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  size_t size() const { return count_; }
  const Tensor& operator[](size_t i) const { return first_[i]; }
  WT_API std::span<const Tensor> span() const;

 private:
  Tensor made_{};
  // A span here would be instantiated wherever this header is.
  const Tensor* first_;
  size_t count_;
};

// A result without create_graph is a constant to the graphs it enters: backward() of a loss that
// was made from one throws UsageError, unless it went through detach() or a NoGrad scope.
//
// d outputs / d inputs, a tensor an input, without touching any .grad: grads(loss, {w, b}),
// grads(loss, net.parameters()), grads({y, z}, x). Throws UsageError for outputs that need no
// gradient, for a graph freed by an earlier backward and (unless allow_unused) unused inputs.
WT_API std::vector<Tensor> grads(const TensorList& outputs, const TensorList& inputs,
                                 const GradOptions& options = {}, Frame at = Frame::here());
// One output, one input: d output / d input.
WT_API Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options = {},
                   Frame at = Frame::here());
template <TensorMaker L>
Tensor grad(const L& loss, const Tensor& input, const GradOptions& options = {},
            Frame at = Frame::here()) {
  return grad(loss.mean(at), input, options, at);
}
namespace detail {
// backward() from a seed that carries the scale of a GradScaler (Leaf::scaler).
void backward_scaled(const Tensor& root, const Tensor& seed, u32 scaler, BackwardOptions options,
                     Frame at);
struct SeveralInputsAreForGrads {
  template <class... T>
  SeveralInputsAreForGrads(const Tensor&, const Tensor&, const T&...);
};
}  // namespace detail
// grad() gives a tensor, never a vector: of several inputs it is grads(output, {x, y}).
template <class Output>
void grad(const Output&, const detail::SeveralInputsAreForGrads&, const GradOptions& = {}) = delete;

// Called for a tensor's gradient during backward, before it is used or accumulated; what it returns
// replaces the gradient (an undefined tensor: unchanged; another shape, dtype or device throws
// ShapeError). Returns an id for remove_hook.
template <class F>
u64 register_hook(const Tensor& t, F hook);
WT_API void remove_hook(const Tensor& t, u64 id);
using TensorHook = Tensor (*)(void* context, const Tensor& gradient);
namespace detail {
WT_API u64 add_hook(const Tensor& t, TensorHook call, void* context, void (*deleter)(void*));
// `result`, if it may take the gradient's place. Throws ShapeError.
WT_API Tensor checked_hook_result(const Tensor& gradient, Tensor result);
}  // namespace detail
template <class F>
u64 register_hook(const Tensor& t, F hook) {
  return detail::add_hook(
      t,
      [](void* f, const Tensor& g) -> Tensor {
        return detail::checked_hook_result(g, (*static_cast<F*>(f))(g));
      },
      new F(std::move(hook)), [](void* f) { delete static_cast<F*>(f); });
}

}  // namespace wt
