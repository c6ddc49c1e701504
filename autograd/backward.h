// What a backward function sees of the walk: gradients, saved tensors, the places of its results.
#pragma once
#include "warptape/autograd/node.h"

namespace wt {

class Engine;
struct Launch;  // kernels/contract.h

// A leaf's own destination for a gradient: the kernel writes there directly (GEMM with beta), no
// extra pass. `accumulate`: add to what is there; else the old contents are never read.
struct GradSlot {
  TensorImpl* tensor = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return tensor != nullptr; }
  View view() const { return view_of(tensor); }
};

// Where a backward function's kernel writes the gradient of an input: the leaf's slot or, where
// none is offered, a new tensor. Backward::put() hands it over.
class GradDestination {
 public:
  GradDestination() = default;  // of no input
  explicit GradDestination(const GradSlot& s) : tensor_(s.tensor), accumulate_(s.accumulate) {}
  explicit GradDestination(Tensor fresh) : tensor_(fresh.impl()), fresh_(std::move(fresh)) {}
  View view() const { return view_of(tensor_); }
  TensorImpl* impl() const { return tensor_; }
  bool accumulate() const { return accumulate_; }

 private:
  friend struct Backward;
  TensorImpl* tensor_ = nullptr;
  bool accumulate_ = false;
  Tensor fresh_{};
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
  // The bits that the slot holds instead of an output of which only the sign is asked
  // (OpInfo::sign_of_output); null: saved(i). Throws as saved() does when they were freed.
  WT_HOT const SignBits* sign_bits(u32 i) const {
    if (node->slots[i].kind != SlotKind::packed) [[likely]]
      return nullptr;
    return sign_bits_slow(i);
  }
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
  GradSlot slot(u32 i) { return slot_of(i, node->output.key); }
  // The same for a gradient that is converted to the leaf's dtype on the way: to_dtype's.
  GradSlot converted_slot(u32 i);
  // The same or, where it is empty, a new contiguous tensor of the input's shape and the dtype and
  // device of the node's output. Hand it over with put() once the kernel has run.
  GradDestination destination(u32 i) {
    if (const GradSlot s = slot(i)) return GradDestination(s);
    return fresh_destination(i);
  }
  GradDestination fresh_destination(u32 i) const;
  // How a kernel of this node is launched: on the current stream of the output's device.
  Launch launch() const;
  static constexpr int kUnpacked = 256;
  const Tensor& saved_slow(u32 i);
  GradSlot slot_of(u32 i, u32 key);
  const SignBits* sign_bits_slow(u32 i) const;
  void unbind();
  // Hands input i's gradient over. Checked for shape, dtype and device.
  void put(u32 i, Tensor t);
  void put(u32 i, GradDestination d) {
    if (d.fresh_.defined()) put(i, std::move(d.fresh_));
  }
  // The same for an operand that was broadcast: summed to its shape first.
  void put_broadcast(u32 i, Tensor t);
  // g is the gradient of a window of input i, zero elsewhere. Adds it to what has reached input i
  // so far and returns true, or does nothing where that is not this walk's own to write to.
  bool add_to_window(u32 i, int axis, const Slice& window, const Tensor& g);
};

namespace detail {
// dst += src and dst = src for any strides, nothing recorded. Same shape.
void add_into(TensorImpl* dst, const TensorImpl* src);
void add_into(const View& dst, const TensorImpl* src);  // the version is the caller's business
void copy_into(TensorImpl* dst, const TensorImpl* src);
// Nobody else sees this tensor, or its memory.
inline bool is_sole(const TensorImpl* p) {
  return p->refs.sole() && p->storage->refs.sole() && p->geometry.dense && p->flags == 0 &&
         !p->storage->borrowed && !p->node;
}
// have += t, reusing either where nobody else sees it; recorded when mode.grad.
void accumulate(TensorImpl*& have, Tensor t);
}  // namespace detail

}  // namespace wt
