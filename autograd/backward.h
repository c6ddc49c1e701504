// The backward engine: what a backward function sees, and the walk.
#pragma once
#include <span>
#include <vector>

#include "warptape/autograd/node.h"
#include "warptape/core/in.h"

namespace wt {

class Engine;

// A leaf's own destination for a gradient: the kernel writes there directly (GEMM with beta), no
// extra pass. `accumulate`: add to what is there; else the old contents are never read.
struct GradSlot {
  TensorImpl* tensor = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return tensor != nullptr; }
  View view() const { return view_of(tensor); }
};

// What a backward function gets. It is written in differentiable operators; whether they record is
// the engine's business (create_graph).
//
//   void mul_backward(Backward& g) {
//     if (g.wants(0)) g.put(0, g.grad() * g.saved(1));
//     if (g.wants(1)) g.put(1, g.take_grad() * g.saved(0));
//   }
struct Backward {
  Engine& engine;
  Node* node;
  TensorImpl** grads;               // one an output; null: no gradient reached it
  TensorImpl* bound[kInlineSlots];  // saved outputs that were given their node back
  int n_bound = 0;                  // and kUnpacked, when slots were unpacked
  bool some;                        // only some leaves are asked for: grads()

  Backward(Engine& e, Node* n, TensorImpl** g, bool only_some)
      : engine(e), node(n), grads(g), some(only_some) {}
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;
  ~Backward() {
    if (n_bound) [[unlikely]]
      unbind();
  }

  // Input i's gradient is wanted by this walk.
  WT_HOT bool wants(u32 i) const {
    return node->edges[i].node != nullptr && (!some || is_needed(i));
  }
  bool is_needed(u32 i) const;
  // True under create_graph: what the backward computes is recorded.
  bool recording() const { return mode.grad; }
  // The gradient of output k. Throws InternalError if none reached it (check has_grad for operators
  // with several outputs).
  const Tensor& grad(u32 k = 0) const { return reinterpret_cast<const Tensor&>(grads[k]); }
  bool has_grad(u32 k) const { return grads[k] != nullptr; }
  // Gives it up: the next operator may work in its storage. The last use in a backward.
  Tensor take_grad(u32 k = 0) {
    TensorImpl* p = grads[k];
    grads[k] = nullptr;
    return Tensor(p);
  }
  // Slot i of the node, checked against its version. Throws InplaceError naming the line that needs
  // it, UsageError when an earlier backward freed it.
  const Tensor& saved(u32 i);
  bool has_saved(u32 i) const { return node->slots[i].kind != SlotKind::empty; }
  // True when the caller may overwrite slot i: this is its last use and nobody else can see it.
  bool may_overwrite_saved(u32 i) const;
  template <class A>
  const A& attribute() const {
    return node->attribute<A>();
  }
  // Shape of input i as the forward saw it.
  Shape input_shape(u32 i) const;
  // Where input i's gradient may be written directly; empty when it must be returned with put().
  // Asking counts as having written: fill it.
  GradSlot slot(u32 i);
  static constexpr int kUnpacked = 256;
  const Tensor& saved_slow(u32 i);
  void unbind();
  // Hands input i's gradient over. Checked for shape, dtype and device.
  void put(u32 i, Tensor t);
  // The same for an operand that was broadcast: summed to its shape first.
  void put_broadcast(u32 i, Tensor t);
  // g is the gradient of a window of input i, zero elsewhere. Adds it to what has reached input i
  // so far and returns true, or does nothing where that is not this walk's own to write to.
  bool add_to_window(u32 i, int axis, const Slice& window, const Tensor& g);
};

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
  TensorList(const Tensor& t) : tensors_(&t, 1) {}                                         // NOLINT
  TensorList(std::initializer_list<Tensor> list) : tensors_(list.begin(), list.size()) {}  // NOLINT
  TensorList(const Tensor* first, size_t count) : tensors_(first, count) {}
  template <std::convertible_to<std::span<const Tensor>> R>
  TensorList(const R& range) : tensors_(range) {}  // NOLINT
  template <TensorHolder P>
  TensorList(const P& p) : TensorList(p.tensor()) {}  // NOLINT
  template <TensorMaker L>
  TensorList(const L& loss, Frame at = Frame::here())  // NOLINT
      : made_(loss.mean(at)), tensors_(&made_, 1) {}
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  size_t size() const { return tensors_.size(); }
  const Tensor& operator[](size_t i) const { return tensors_[i]; }
  std::span<const Tensor> span() const { return tensors_; }

 private:
  Tensor made_{};
  std::span<const Tensor> tensors_;
};

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

namespace detail {
// dst += src and dst = src for any strides, nothing recorded. Same shape.
void add_into(TensorImpl* dst, const TensorImpl* src);
void add_into(const View& dst, const TensorImpl* src);  // the version is the caller's business
void copy_into(TensorImpl* dst, const TensorImpl* src);
// have += t, reusing either where nobody else sees it; recorded when mode.grad.
void accumulate(TensorImpl*& have, Tensor t);
}  // namespace detail

}  // namespace wt
