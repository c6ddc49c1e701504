#include "warptape/autograd/op_scope.h"

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/internal/stored_cast.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/result_watch.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/profiler.h"
#include "warptape/core/slices.h"
#include "warptape/core/stream.h"

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

}  // namespace

// A dtype that computes and holds every value of t, but for those of u64 from 2^63 on.
static DType computing_dtype(DType t) {
  if (is_floating(t)) return DType::f32;
  return t == DType::u32 || t == DType::u64 ? DType::i64 : DType::i32;
}

DType promoted_dtype(const OpInfo& info, const In* const* in, int n, int first) {
  for (int i = first; i < n; ++i)
    for (int k = first; k < i; ++k) {
      const DType a = dtype_of(in[k]->impl()), b = dtype_of(in[i]->impl());
      if (promotes(a, b)) continue;
      const bool of_a = !computes(a);
      const DType stored = of_a ? a : b;
      throw DtypeError(OpScope::message(
          info, in, n,
          str(dtype_name(a), " and ", dtype_name(b), " do not promote: ", dtype_name(stored),
              " is for storage only"),
          str(".to(", dtype_name(computing_dtype(stored)), ") on operand ", of_a ? k : i)));
    }
  bool have[2] = {false, false};
  DType wide[2] = {};
  for (int i = first; i < n; ++i) {
    const TensorImpl* p = in[i]->impl();
    const int zero_d = p->geometry.ndim == 0;
    wide[zero_d] = have[zero_d] ? promote(wide[zero_d], dtype_of(p)) : dtype_of(p);
    have[zero_d] = true;
  }
  if (!have[0]) return wide[1];
  if (!have[1] || promotion_category(wide[0]) >= promotion_category(wide[1])) return wide[0];
  return promote(wide[0], wide[1]);
}

namespace {

void set_output(Node* n, u32 k, const TensorImpl* p) {
  OutputInfo& o = k == 0 ? n->output : n->spill->outputs[k - 1];
  o.key = p->key;
  o.ndim = p->geometry.ndim;
  for (int d = 0; d < o.ndim; ++d) o.shape[d] = p->geometry.shape[d];
}

}  // namespace

OpScope::OpScope(const OpInfo& info, const In* const* inputs, int n, Types types)
    : info_(info), a_(inputs[0]), many_(inputs), n_(n) {
  outer_op_ = mode.op;
  mode.op = &info_;
  mode.operand = a_;
  for (int i = 0; i < n; ++i) inputs[i]->open();
  constant_ = open_slow(info_, outer_op_, inputs, n, types);
  repeated_ = (mode.slow & (kSlowNoReuse | kSlowSliced)) != 0;
  bool any = false;
  for (int i = 0; i < n; ++i) any |= impl(i)->node != nullptr;
  recording_ = any && mode.grad;
  for (int i = 1; i < n; ++i)
    for (int k = 0; k < i; ++k) repeated_ |= impl(i) == impl(k);
}

// The first operand is a model's input more often than a parameter, so it is the one to change.
static std::string dtype_hint(const In* const* in, int n) {
  for (int i = 1; i < n; ++i)
    if (const DType t = dtype_of(in[i]->impl()); is_floating(t) && t != dtype_of(in[0]->impl()))
      return str(".to(", dtype_name(t), ") on the first one");
  return str(".to(", dtype_name(dtype_of(in[0]->impl())), ") on the other one");
}

// A 0-d tensor of the cpu may be beside a device's: its value goes along.
static bool may_follow(const TensorImpl* p) {
  return p->geometry.ndim == 0 && device_of(p) == Device::cpu() && !detail::slices_of(p);
}

void OpScope::bring_together(const OpInfo& info, const In* const* in, int n) {
  bool differ = false;
  for (int i = 1; i < n; ++i) differ |= !(device_of(in[i]->impl()) == device_of(in[0]->impl()));
  if (!differ) return;
  const int fixed = info.in_place;  // what is written stays where it is
  int first = 0;
  while (!fixed && first < n - 1 && may_follow(in[first]->impl())) ++first;
  const Device d = device_of(in[first]->impl());
  for (int i = 0; i < n; ++i)
    if (!(device_of(in[i]->impl()) == d) && (i < fixed || !may_follow(in[i]->impl())))
      throw PlacementError(message(
          info, in, n,
          str("operands are on ", to_string(d), " and ", to_string(device_of(in[i]->impl()))),
          ".to(Device) on one of them"));
  for (int i = 0; i < n; ++i)
    if (!(device_of(in[i]->impl()) == d)) in[i]->replace(detail::value_on(*in[i], d));
}

bool OpScope::open_slow(const OpInfo& info, const OpInfo* outer, const In* const* in, int n,
                        Types types) {
  // A throw from a constructor runs no destructor: the owner tag is put back here.
  struct Restore {
    const OpInfo* outer;
    const OpInfo* info;
    bool ok = false;
    bool observed = false;
    ~Restore() {
      if (ok) return;
      mode.op = outer;
      mode.operand = nullptr;
      if (observed) end_observed(*info);
    }
  } restore{outer, &info};
  for (int i = 0; i < n; ++i)
    if (!in[i]->impl())
      throw UsageError(message(
          info, in, n, str("operand ", i, " is undefined (never assigned, or moved from)"), ""));
  if (!info.mixed_devices) bring_together(info, in, n);
  const Device d = device_of(in[0]->impl());
  const u32 process = process_slow.load(std::memory_order_relaxed);
  if (process | (mode.slow & kSlowProfile)) [[unlikely]] {
    if (((process & kSlowObserved) != 0) != ((mode.slow & kSlowProfile) != 0))
      profiler::follow_observers();
    if (process & kSlowObserved) {
      const FrameId line = mode.frame ? mode.frame : intern_frame(in[0]->frame());
      profiler::begin({.kind = profiler::Kind::op,
                       .name = info.name,
                       .variant = nullptr,
                       .op = &info,
                       .frame = line,
                       .mode_id = mode.id,
                       .device = d,
                       .stream = mode.native_stream,
                       .operands = in,
                       .n_operands = n});
      restore.observed = true;
    }
    if (process & ~u32(kSlowObserved | kSlowSlices))
      for (int i = 0; i < n; ++i) detail::prepare_operand(in[i]->impl());
  }
  if (mode.recomputation) detail::note_operands(in, n);
  if (mode.slow & kSlowAutocast) detail::autocast_operands(info, in, n);
  bool differ = false;
  for (int i = 1; i < n; ++i) differ |= dtype_of(in[i]->impl()) != dtype_of(in[0]->impl());
  if (differ && types == Types::same)
    throw DtypeError(message(info, in, n, "operands differ in dtype", dtype_hint(in, n)));
  if (differ && types == Types::promote) {
    const DType wide = promoted_dtype(info, in, n);
    for (int i = 0; i < n; ++i)
      if (dtype_of(in[i]->impl()) != wide)
        in[i]->replace(to_dtype(Tensor(detail::retained(in[i]->impl())), wide));
  }
  if (detail::keeps_recipes())
    for (int i = 0; i < n; ++i) detail::check_recipe(in[i]->impl());
  mode.operand = in[0];  // conversions, operators themselves, have left none
  if (!((process & kSlowSlices) | (mode.slow & (kSlowSliced | kSlowConstant)))) [[likely]] {
    restore.ok = true;
    return false;
  }
  if ((process & kSlowSlices) | (mode.slow & kSlowSliced)) open_slices(info, in, n);
  restore.ok = true;
  if (!(mode.slow & kSlowConstant && mode.grad)) return false;
  bool constant = false;
  for (int i = 0; i < n; ++i) constant |= (in[i]->impl()->flags & kConstantDerivative) != 0;
  return constant;
}

// What the operator allocates has the slices of all its operands.
void OpScope::open_slices(const OpInfo& info, const In* const* in, int n) {
  detail::SliceAxes axes;
  for (int i = 0; i < n; ++i)
    if (const detail::SliceAxes* a = detail::slices_of(in[i]->impl())) axes.merge(*a);
  if (mode.slow & kSlowSliced) return detail::push_slices(axes);
  if (axes.n)
    throw UsageError(message(info, in, n, "an operand was made inside of a vmap() that has ended",
                             "returning it from the function: vmap() joins its slices"));
}

// In operand i's order, or where that has none (expanded) in that of another one of its shape.
TensorImpl* OpScope::in_some_order(const In* const* in, int n, int i, DType t) {
  const TensorImpl* like = in[i]->impl();
  for (int k = 0; k < n && !is_permuted_dense(like->geometry); ++k)
    if (same_shape(in[k]->impl()->geometry, in[i]->impl()->geometry)) like = in[k]->impl();
  return new_in_order(like, t);
}

// Something threw between record() and finish().
void OpScope::abandon(Node* n) {
  for (u32 k = 0; k < n->n_slots; ++k)
    if (n->slots[k].kind != SlotKind::owned) n->slots[k].tensor = nullptr;
  n->n_edges = 0;
  release(n);
}

void OpScope::spill(Node* n, int edges, int slots) {
  n->spill = new NodeSpill;
  n->spill->edges.resize(size_t(edges));
  n->spill->slots.resize(size_t(slots));
  n->edges = n->spill->edges.data();
  n->slots = n->spill->slots.data();
  n->flags |= kSpilled;
}

void OpScope::saved_inference_tensor(Node* n, const OpInfo& info, int operand, Frame at) {
  abandon(n);
  throw UsageError(str("[", info.name, "] operand ", operand,
                       " was made in inference mode and cannot be saved for backward\n  at ",
                       describe(at), "\n  Try .clone() on it outside inference mode"));
}

void OpScope::fill_extra(SavedSlot& slot, TensorImpl* newest, int older) {
  while (older-- > 0) newest = newest->next;
  slot.tensor = newest;
  retain(newest);
  slot.kind = SlotKind::owned;
  slot.edge = kNoEdge;
  slot.version = slot.tensor->cell->version;
}

void OpScope::release_extras(TensorImpl* newest) {
  while (newest) {
    TensorImpl* p = newest;
    newest = p->next;
    release(p);
  }
}

// Before the operator's range ends, which says what it is that made this.
static void show_result(const OpInfo& info, const TensorImpl* out, int k = 0) {
  if (!(mode.slow & kSlowProfile)) return;
  if (detail::ResultWatch* w = detail::result_watch) w->result(info, out, k);
}

void OpScope::end_observed(const OpInfo& info) {
  if (mode.slow & kSlowProfile) profiler::end_op(info);
}

void OpScope::end_unfinished(const OpInfo& info) {
  if (mode.slow & kSlowSliced) detail::pop_slices();
  end_observed(info);
}

void OpScope::finish_slow(const OpInfo& info, TensorImpl* out, bool constant) {
  if (constant) out->flags |= kConstantDerivative;
  if (mode.slow & kSlowInference) out->flags |= kInference;
  if (mode.slow & kSlowSaving && out->node && !out->node->is_leaf())
    detail::pack_slots(out->node, out);
  show_result(info, out);
  end_unfinished(info);
}

// The same rvalue saved in two slots.
void OpScope::share_slot(Node* n, SavedSlot& slot, u64 codes, u8 code) {
  for (u32 k = 0; k < n->n_slots; ++k) {
    SavedSlot& other = n->slots[k];
    if (&other == &slot || u8(codes >> (8 * k)) != code || !other.tensor) continue;
    slot.tensor = other.tensor;
    retain(slot.tensor);
    return;
  }
  WT_INTERNAL_ASSERT(false);
}

std::string OpScope::at_line() const { return "\n  at " + describe_place(a_->frame()); }

std::string OpScope::message(const OpInfo& info, const In* const* in, int n,
                             const std::string& headline, const std::string& hint) {
  return str("[", info.name, "] ", headline, operand_lines(in, n), "\n  at ",
             describe_place(in[0]->frame()), hint.empty() ? "" : "\n  Try " + hint);
}

void OpScope::drop_stale_node(TensorImpl* out) {
  Node* n = out->node;
  out->node = nullptr;
  release(n);
}

TensorImpl* OpScope::new_view(const TensorImpl* base, const Geometry& g, i64 offset, Frame at) {
  TensorImpl* p = new_impl();
  p->key = base->key;
  p->flags = u8(kIsView | (base->flags & kInference));
  p->frame = intern_frame(at);
  p->storage = base->storage;
  retain(p->storage);
  p->data = base->data ? static_cast<char*>(base->data) + offset * item_size(g.dtype) : nullptr;
  p->cell = base->cell;
  p->cell->view_frame.store(p->frame, std::memory_order_relaxed);
  p->cell->views.fetch_add(1, std::memory_order_relaxed);
  p->geometry = g;
  return p;
}

int OpScope::axis(i64 axis, int ndim) const {
  const int n = ndim == 0 ? 1 : ndim;
  if (axis < -n || axis >= n) [[unlikely]]
    fail<ShapeError>(bad_axis(axis, ndim));
  return int(axis < 0 ? axis + n : axis);
}

u32 OpScope::axes(const Dims& dims, int ndim) const {
  if (!dims.is_all()) {
    u32 seen = 0;
    for (int i = 0; i < int(dims.size()); ++i) {
      const u32 bit = 1u << axis(dims[i], ndim);
      if (seen & bit) fail<ShapeError>(str("axis ", dims[i], " is named twice"));
      seen |= bit;
    }
  }
  return axis_mask(info_.name, dims, ndim);
}

void OpScope::begin_in_place() const {
  const TensorImpl* p = impl(0);
  if (mode.slow & kSlowSliced) [[unlikely]] {
    const detail::SliceAxes* own = detail::slices_of(p);
    for (int i = 1; i < n_; ++i)
      if (const detail::SliceAxes* other = detail::slices_of(impl(i)))
        for (const detail::SliceAxis& a : *other)
          if (!own || !own->find(a.level))
            fail<UsageError>("would write every slice of vmap() into one tensor",
                             "the operator that makes a new tensor, or zeros_like() of what vmap() "
                             "maps over");
  }
  if (!recording_) return;
  if (p->node && p->node->is_leaf())
    fail<InplaceError>(str("in-place operation on a leaf that requires grad, made at ",
                           describe_frame(p->node->frame)),
                       "it under NoGrad, or on a clone()");
  if (mode.recomputation && detail::made_outside(p)) [[unlikely]]
    fail<InplaceError>(
        "recorded in-place operation on a tensor from outside of the checkpointed function",
        "the operator that makes a new tensor");
  if (p->flags & kIsView)
    fail<InplaceError>(
        str("in-place operation on a view while gradients are recorded; the view was made at ",
            describe_frame(p->frame)),
        "x.index_put_({...}, value) of the whole, which is recorded, or cat() of the parts");
  if (p->cell->views.load(std::memory_order_relaxed) != 0)
    fail<InplaceError>(str("in-place operation on a tensor with live views while gradients are "
                           "recorded; a view was made at ",
                           describe_frame(p->cell->view_frame)),
                       "it before the view is made, or the operator that makes a new tensor");
}

// retain_grad() is about the tensor: an operator in place moves the wish to the new node.
static void hand_on_retained(const TensorImpl* out, Node* to) {
  std::vector<RetainedGrad>& from = out->node->spill->retained;
  for (RetainedGrad& r : from) {
    if (r.output != out->output_index) continue;
    if (!to->spill) to->spill = new NodeSpill;
    to->spill->retained.push_back({0, r.grad});
    r.grad = nullptr;
  }
  std::erase_if(from, [&](const RetainedGrad& r) { return r.output == out->output_index; });
}

void OpScope::finish_in_place() {
  TensorImpl* out = impl(0);
  out->cell->wrote(intern_frame(frame()));
  if (constant_) out->flags |= kConstantDerivative;
  if (Node* n = node_) {
    for (int i = 0; i < n_; ++i) {
      Node* from = impl(i)->node;
      n->edges[i] = {from, impl(i)->output_index};
      if (!from) continue;
      if (from->sequence > n->sequence) n->sequence = from->sequence;
      retain(from);
    }
    n->n_edges = u16(n_);
    set_output(n, 0, out);
    if (out->node) {
      if (out->flags & kSavedOutput) forget_saved_output(out);
      if (out->node->spill) hand_on_retained(out, n);
      release(out->node);
      out->node = nullptr;
    }
    fill_slots(&out);
    if (mode.slow & kSlowSaving) detail::pack_slots(n, out);
    n->sequence += 1;
    mode.sequence = n->sequence;
    node_ = nullptr;
    out->node = n;
    out->output_index = 0;
  }
  for (int i = 1; i < n_; ++i) empty_rvalue(input(i), nullptr);
  show_result(info_, out);
}

std::vector<Tensor> OpScope::finish(std::vector<Result> outputs) {
  std::vector<TensorImpl*> impls;
  const In* reused = nullptr;  // an operand whose tensor one of them has become
  for (Result& r : outputs) {
    impls.push_back(r.p_);
    if (!r.from_) continue;
    WT_INTERNAL_ASSERT(!reused);
    reused = r.from_;
    ++r.p_->cell->version;
    detail::count_saved(memory::SavingRule::reuse, r.p_->storage->bytes);
  }
  std::vector<Tensor> tensors;
  tensors.reserve(outputs.size());
  Node* n = node_;
  if (n) {
    if (outputs.size() > 1) {
      if (!n->spill) n->spill = new NodeSpill;
      n->spill->outputs.resize(outputs.size() - 1);
    }
    set_edges(reused);
    n->n_outputs = u8(outputs.size());
    for (u32 k = 0; k < impls.size(); ++k) set_output(n, k, impls[k]);
    fill_slots(impls.data());
    n->sequence += 1;
    mode.sequence = n->sequence;
    node_ = nullptr;
    for (size_t k = 1; k < impls.size(); ++k) retain(n);
    if (mode.slow & kSlowSaving) detail::pack_slots(n, impls[0]);
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].p_ = nullptr;
    if (!n && impls[k]->node) drop_stale_node(impls[k]);
    impls[k]->node = n;
    impls[k]->output_index = u16(k);
    if (mode.slow & kSlowInference) impls[k]->flags |= kInference;
    if (constant_) impls[k]->flags |= kConstantDerivative;
    tensors.push_back(Tensor(impls[k]));
  }
  empty_rvalues(reused);
  if (mode.slow & kSlowProfile)
    for (size_t k = 0; k < tensors.size(); ++k) show_result(info_, tensors[k].impl(), int(k));
  return tensors;
}

}  // namespace wt
