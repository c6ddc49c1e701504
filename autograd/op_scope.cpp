#include "warptape/autograd/op_scope.h"

#include "warptape/autograd/ops.h"

namespace wt {
namespace {

std::string operand_lines(const In* const* in, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    const TensorImpl* p = in[i]->impl();
    text += str("\n  operand ", i, ": ");
    text += p ? str(Shape(p->geometry.shape, p->geometry.ndim), " ", dtype_name(dtype_of(p)), " ",
                    to_string(device_of(p)))
              : "undefined";
  }
  return text;
}

// 0-d tensors change the result only when their category is higher.
DType promoted_dtype(const In* const* in, int n) {
  bool have[2] = {false, false};
  DType wide[2] = {};
  for (int i = 0; i < n; ++i) {
    const TensorImpl* p = in[i]->impl();
    const int zero_d = p->geometry.ndim == 0;
    wide[zero_d] = have[zero_d] ? promote(wide[zero_d], dtype_of(p)) : dtype_of(p);
    have[zero_d] = true;
  }
  if (!have[0]) return wide[1];
  if (!have[1] || promotion_category(wide[0]) >= promotion_category(wide[1])) return wide[0];
  return promote(wide[0], wide[1]);
}

}  // namespace

OpScope::OpScope(const OpInfo& info, const In* const* inputs, int n, Types types) : info_(info) {
  many_ = inputs;
  n_ = n;
  for (int i = 0; i < n && i < kMaxInputs; ++i) in_[i] = inputs[i];
  outer_op_ = mode.op;
  mode.op = &info_;
  open_slow(types);
  device_ = device_of(impl(0));
  bool any = false;
  for (int i = 0; i < n; ++i) any |= inputs[i]->impl()->node != nullptr;
  recording_ = any && mode.grad;
  for (int i = 1; i < n; ++i)
    for (int k = 0; k < i; ++k) repeated_ |= impl(i) == impl(k);
}

void OpScope::open_slow(Types types) {
  // A throw from a constructor runs no destructor: the owner tag is put back here.
  const auto fail = [&](auto error) {
    mode.op = outer_op_;
    throw error;
  };
  const In* const* in = inputs();
  const auto where = [&] { return str("\n  at ", describe(frame())); };
  for (int i = 0; i < n_; ++i)
    if (!in[i]->impl())
      fail(UsageError(str("[", info_.name, "] operand ", i,
                          " is undefined (never assigned, or moved from)", where())));
  const Device d = device_of(in[0]->impl());
  if (!info_.mixed_devices)
    for (int i = 1; i < n_; ++i)
      if (!(device_of(in[i]->impl()) == d))
        fail(PlacementError(str("[", info_.name, "] operands are on ", to_string(d), " and ",
                                to_string(device_of(in[i]->impl())), operand_lines(in, n_), where(),
                                "\n  Try .to(Device) on one of them")));
  if (types == Types::any) return;
  bool differ = false;
  for (int i = 1; i < n_; ++i) differ |= dtype_of(in[i]->impl()) != dtype_of(in[0]->impl());
  if (!differ) return;
  if (types == Types::same)
    fail(DtypeError(str("[", info_.name, "] operands differ in dtype", operand_lines(in, n_),
                        where(), "\n  Try .to(", dtype_name(dtype_of(in[0]->impl())),
                        ") on the other one")));
  const DType wide = promoted_dtype(in, n_);
  try {
    for (int i = 0; i < n_; ++i)
      if (dtype_of(in[i]->impl()) != wide)
        in[i]->replace(to_dtype(Tensor(detail::retained(in[i]->impl())), wide));
  } catch (...) {
    mode.op = outer_op_;
    throw;
  }
}

// Something threw between record() and finish().
void OpScope::abandon() {
  for (u32 k = 0; k < node_->n_slots; ++k)
    if (node_->slots[k].kind != SlotKind::owned) node_->slots[k].tensor = nullptr;
  node_->n_edges = 0;
  release(node_);
  node_ = nullptr;
}

void OpScope::spill_edges() {
  node_->spill = new NodeSpill;
  node_->spill->edges.resize(size_t(n_));
  node_->spill->slots.resize(n_slots_);
  node_->edges = node_->spill->edges.data();
  node_->slots = node_->spill->slots.data();
  node_->flags |= kSpilled;
}

void OpScope::fill_slot_slow(SavedSlot& slot, u8 code) {
  if (code >= kExtraSlot) {  // a tensor of the operator's own
    slot.tensor = (*extra_)[code - kExtraSlot].release_impl();
    slot.kind = SlotKind::owned;
    slot.edge = kNoEdge;
    slot.version = slot.tensor->cell->version;
    return;
  }
  const In& in = input(code);
  if (in.impl() && in.impl()->flags & kInference) {
    abandon();
    throw UsageError(str("[", info_.name, "] operand ", int(code),
                         " was made in inference mode and cannot be saved for backward\n  at ",
                         describe(frame()), "\n  Try .clone() on it outside inference mode"));
  }
  for (int k = 0; k < n_slots_; ++k)  // the same rvalue saved in two slots
    if (&node_->slots[k] != &slot && slots_[k] == code && node_->slots[k].tensor) {
      slot.tensor = node_->slots[k].tensor;
      retain(slot.tensor);
      return;
    }
  WT_INTERNAL_ASSERT(false);
}

std::string OpScope::message(const std::string& headline, const std::string& hint) const {
  return str("[", info_.name, "] ", headline, operand_lines(inputs(), n_), "\n  at ",
             describe(frame()), hint.empty() ? "" : "\n  Try " + hint);
}

void OpScope::drop_stale_node(TensorImpl* out) {
  Node* n = out->node;
  out->node = nullptr;
  release(n);
}

Result OpScope::view_result(const Geometry& g, i64 offset) {
  const TensorImpl* base = impl(0);
  TensorImpl* p = new_impl();
  p->key = base->key;
  p->flags = u8(kIsView | (base->flags & kInference));
  p->frame = intern_frame(frame());
  p->storage = base->storage;
  retain(p->storage);
  p->data = base->data ? static_cast<char*>(base->data) + offset * item_size(g.dtype) : nullptr;
  p->cell = base->cell;
  p->cell->view_frame = p->frame;
  p->cell->views.fetch_add(1, std::memory_order_relaxed);
  p->geometry = g;
  return Result(p);
}

void OpScope::begin_in_place() {
  TensorImpl* p = impl(0);
  if (!mode.grad || !recording_) return;
  const auto refuse = [&](const std::string& why) {
    throw InplaceError(str("[", info_.name, "] ", why, "\n  at ", describe(frame())));
  };
  if (p->node && p->node->is_leaf())
    refuse(str("in-place operation on a leaf that requires grad, made at ",
               describe_frame(p->node->frame), "\n  Try it under NoGrad, or on a clone()"));
  if (p->flags & kIsView)
    refuse(str("in-place operation on a view while gradients are recorded; the view was made at ",
               describe_frame(p->frame), "\n  Try slice_scatter, the functional form"));
  if (p->cell->views.load(std::memory_order_relaxed) != 0)
    refuse(
        str("in-place operation on a tensor with live views while gradients are recorded; a "
            "view was made at ",
            describe_frame(p->cell->view_frame)));
}

void OpScope::finish_in_place() {
  TensorImpl* out = impl(0);
  ++out->cell->version;
  if (!node_) return;
  Node* n = node_;
  for (int i = 0; i < n_; ++i) {
    Node* from = impl(i)->node;
    n->edges[i] = {from, impl(i)->output_index};
    if (!from) continue;
    if (from->sequence > n->sequence) n->sequence = from->sequence;
    retain(from);
  }
  n->n_edges = u16(n_);
  n->output.key = out->key;
  n->output.ndim = out->geometry.ndim;
  for (int i = 0; i < out->geometry.ndim; ++i) n->output.shape[i] = out->geometry.shape[i];
  if (out->node) {
    if (out->flags & kSavedOutput) forget_saved_output(out);
    release(out->node);
    out->node = nullptr;
  }
  fill_slots(&out);
  n->sequence += 1;
  mode.sequence = n->sequence;
  node_ = nullptr;
  out->node = n;
  out->output_index = 0;
  for (int i = 1; i < n_; ++i) {
    if (!input(i).is_rvalue()) continue;
    input(i).take();
    input(i).finish_replaced();
  }
}

std::vector<Tensor> OpScope::finish(std::vector<Result> outputs) {
  std::vector<TensorImpl*> impls;
  for (Result& r : outputs) impls.push_back(r.p_);
  std::vector<Tensor> tensors;
  tensors.reserve(outputs.size());
  if (node_ && outputs.size() > 1 && !node_->spill) node_->spill = new NodeSpill;
  if (node_ && outputs.size() > 1) node_->spill->outputs.resize(outputs.size() - 1);
  Node* n = node_;
  if (n) {
    for (int i = 0; i < n_; ++i) set_edge(i, false);
    n->n_edges = u16(n_);
    n->n_outputs = u8(outputs.size());
    for (size_t k = 0; k < impls.size(); ++k) {
      OutputInfo& o = k == 0 ? n->output : n->spill->outputs[k - 1];
      o.key = impls[k]->key;
      o.ndim = impls[k]->geometry.ndim;
      for (int d = 0; d < o.ndim; ++d) o.shape[d] = impls[k]->geometry.shape[d];
    }
    fill_slots(impls.data());
    n->sequence += 1;
    mode.sequence = n->sequence;
    node_ = nullptr;
    for (size_t k = 1; k < impls.size(); ++k) retain(n);
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].p_ = nullptr;
    impls[k]->node = n;
    impls[k]->output_index = u16(k);
    if (mode.slow & kSlowInference) impls[k]->flags |= kInference;
    tensors.push_back(Tensor(impls[k]));
  }
  for (int i = 0; i < n_; ++i) {
    if (!input(i).is_rvalue()) continue;
    input(i).take();
    input(i).finish_replaced();
  }
  return tensors;
}

}  // namespace wt
