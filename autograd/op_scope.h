// The prologue and the recorder: how every operator begins and ends. For authors of operators.
//
//   Tensor tanh(const In& x) {
//     OpScope s{info::tanh, x};                 // checks, promotion, autocast, profiler, owner tag
//     Result y = s.result_like(0);              // takes over x's storage where it may
//     s.save_output();                          // what backward will read
//     s.record(tanh_backward, 1);               // the node, if anybody wants a gradient
//     run(TanhArgs{y.view(), s.view(0)}, s.launch());
//     return s.finish(std::move(y));            // edges, slots, version bumps; never throws
//   }
//
// Order matters: all that can fail (checks, output, node, workspace) comes before the launch, so an
// operator that throws has changed nothing, and an rvalue operand is still the user's.
#pragma once
#include "warptape/autograd/autopilot.h"
#include "warptape/autograd/node.h"
#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/in.h"
#include "warptape/kernels/run.h"

namespace wt {

// A new output until finish() attaches it: released if anything throws before.
class Result {
 public:
  WT_HOT explicit Result(TensorImpl* fresh) : p_(fresh) {}
  WT_HOT Result(TensorImpl* reused, const In* from) : p_(reused), from_(from) {}
  WT_HOT Result(Result&& o) noexcept : p_(o.p_), from_(o.from_) { o.p_ = nullptr; }
  Result& operator=(Result&&) = delete;
  WT_HOT ~Result() {
    if (p_ && !from_) [[unlikely]]
      release(p_);
  }
  WT_HOT View view() const { return view_of(p_); }
  WT_HOT TensorImpl* impl() const { return p_; }
  WT_HOT bool reuses(const In& in) const { return from_ == &in; }

 private:
  friend class OpScope;
  TensorImpl* p_;
  const In* from_ = nullptr;  // the rvalue whose tensor this is
};

// The dtype that the operands `first` and up promote to; 0-d tensors change it only when their
// category is higher. Throws DtypeError where one is for storage only and another of another dtype.
DType promoted_dtype(const OpInfo& info, const In* const* in, int n, int first = 0);

// What the operand types of an operator must have in common.
enum class Types : u8 { same, promote, any };

// The fields are scalars and nothing hot takes this object's address, so that after inlining they
// live in registers: that is half of the tape's speed. Cold paths get copies.
class OpScope {
 public:
  WT_HOT OpScope(const OpInfo& info, const In& a, Types types = Types::same)
      : info_(info), a_(&a), n_(1) {
    open(types, a.open() ? 0 : ~0u);
  }
  WT_HOT OpScope(const OpInfo& info, const In& a, const In& b, Types types = Types::same)
      : info_(info), a_(&a), b_(&b), n_(2) {
    const TensorImpl *p = a.open(), *q = b.open();
    open(types, p && q ? p->key ^ q->key : ~0u);
    repeated_ |= a.opened() == b.opened();
  }
  WT_HOT OpScope(const OpInfo& info, const In& a, const In& b, const In& c,
                 Types types = Types::same)
      : info_(info), a_(&a), b_(&b), c_(&c), n_(3) {
    const TensorImpl *p = a.open(), *q = b.open(), *r = c.open();
    open(types, p && q && r ? (p->key ^ q->key) | (p->key ^ r->key) : ~0u);
    repeated_ |= a.opened() == b.opened() || a.opened() == c.opened() || b.opened() == c.opened();
  }
  // Operands of a list (cat, custom operators).
  OpScope(const OpInfo& info, const In* const* inputs, int n, Types types = Types::same);
  // Operands must be named: a tensor converted on the spot would die before the operator runs.
  template <class... T>
  requires(... ||
           (!std::same_as<std::remove_cvref_t<T>, Types> &&
            (!std::is_lvalue_reference_v<T> || !std::derived_from<std::remove_cvref_t<T>, In>)))
      OpScope(const OpInfo&, T&&...)
  = delete;
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
  WT_HOT ~OpScope() {
    mode.op = outer_op_;
    mode.operand = nullptr;
    if (node_) [[unlikely]]
      abandon(node_);
    if (extra_) [[unlikely]]
      release_extras(extra_);
    if (unfinished_) [[unlikely]]
      end_unfinished(info_);
  }

  // --- facts ---
  WT_HOT const OpInfo& info() const { return info_; }
  WT_HOT int size() const { return n_; }
  WT_HOT const In& input(int i) const {
    return many_ ? *many_[i] : i == 0 ? *a_ : i == 1 ? *b_ : *c_;
  }
  WT_HOT TensorImpl* impl(int i) const { return input(i).opened(); }
  WT_HOT const Geometry& geometry(int i) const { return impl(i)->geometry; }
  WT_HOT View view(int i) const { return view_of(impl(i)); }
  WT_HOT DType dtype(int i = 0) const { return dtype_of(impl(i)); }
  WT_HOT Device device() const { return device_of(a_->opened()); }
  WT_HOT bool recording() const { return recording_; }
  // Operand i takes part in the graph: its gradient is wanted.
  WT_HOT bool wants(int i) const { return recording_ && impl(i)->node; }
  // The user's line.
  Frame frame() const { return mode.frame ? frame_of(mode.frame) : a_->frame(); }
  // "\n  at net.cpp:57", the line that every message has; fail() adds it by itself.
  std::string at_line() const;

  // Throws E: "[op] headline", then each operand, then the user's line, then the hint.
  template <class E>
  [[noreturn]] WT_HOT void fail(const std::string& headline, const std::string& hint = {}) const {
    const In* const in[] = {a_, b_, c_};
    throw E(message(info_, many_ ? many_ : in, n_, headline, hint));
  }

  // Axis in [-ndim, ndim) to [0, ndim), and a bit an axis of `dims`; throw ShapeError as fail()
  // does.
  int axis(i64 axis, int ndim) const;
  u32 axes(const Dims& dims, int ndim) const;

  // --- outputs ---
  WT_HOT Result result(const i64* shape, int ndim, DType t) const {
    return Result(new_contiguous(shape, ndim, t, device()));
  }
  WT_HOT Result result(const Shape& s, DType t) const { return result(s.data(), s.ndim(), t); }
  // Shape and dtype of operand i. Reuses the storage of operand i, then of the others, when it is
  // an rvalue that nobody else can see and that is not saved.
  WT_HOT Result result_like(int i = 0) const {
    const TensorImpl* like = impl(i);
    if (!rvalues_) return Result(new_like(like));
    if (a_->is_rvalue() && may_reuse(0, like)) return Result(a_->opened(), a_);
    if (n_ > 1 && input(1).is_rvalue() && may_reuse(1, like)) return Result(impl(1), &input(1));
    if (n_ > 2 && input(2).is_rvalue() && may_reuse(2, like)) return Result(impl(2), &input(2));
    return Result(new_like(like));
  }
  // For elementwise operators: the output has operand i's order in memory too (NHWC stays NHWC).
  WT_HOT Result result_in_order(int i = 0) const {
    if (!geometry(i).dense) [[unlikely]]
      return in_order(i, dtype(i));
    return result_like(i);
  }
  WT_HOT Result result_in_order(int i, DType t) const {
    if (!geometry(i).dense) [[unlikely]]
      return in_order(i, t);
    return result(geometry(i).shape, geometry(i).ndim, t);
  }
  // A view of operand 0's storage: geometry to be filled by the caller.
  WT_HOT Result view_result(const Geometry& g, i64 offset_elements) const {
    return Result(new_view(a_->opened(), g, offset_elements, frame()));
  }

  // --- saving: before the outputs are allocated ---
  // Slot numbers follow the order of these calls. Nothing is kept when nothing is recorded.
  WT_HOT void save_input(int i) {
    add_slot(u8(i));
    saved_inputs_ |= u8(1u << i);
  }
  // Only when `needed`, else an empty slot: keeps slot numbers fixed.
  WT_HOT void save_input_if(bool needed, int i) {
    if (needed)
      save_input(i);
    else
      add_slot(kEmptySlot);
  }
  WT_HOT void save_output(int k = 0) { add_slot(u8(kOutputSlot + k)); }
  // A tensor of the operator's own (a mask, statistics): kept by the slot alone.
  void save_extra(Tensor t) {
    TensorImpl* p = t.release_impl();
    p->next = extra_;  // a list through the tensors themselves: no allocation
    extra_ = p;
    add_slot(u8(kExtraSlot + n_extra_++));
  }
  WT_HOT bool has_room_to_save() const { return n_slots_ < kMaxSlots; }

  // --- the node ---
  // After outputs are allocated and saves declared, before the launch. Edge i leads to operand i.
  WT_HOT void record(BackwardFn backward) {
    if (recording_) make_node(backward);
  }
  // For operators in place: what save_input() declared as slot k keeps `copy` instead of the
  // operand, which is about to be overwritten. After record().
  void keep_copy(int k, Tensor copy) const {
    if (!node_) return;
    SavedSlot& slot = node_->slots[k];
    if (slot.tensor) release(slot.tensor);
    slot.tensor = copy.release_impl();
  }
  template <class A>
  WT_HOT void set_attribute(A a) const {
    if (node_) node_->set_attribute(std::move(a));
  }

  // --- launch and end ---
  WT_HOT Launch launch() const { return Launch{&info_, mode.native_stream, nullptr, device()}; }
  // Attaches node, edges and slots and empties the rvalues. Never throws.
  WT_HOT Tensor finish(Result y);
  // A tensor made elsewhere becomes the output (custom operators).
  static Result adopt(Tensor t) { return Result(t.release_impl()); }
  // The same for several differentiable outputs, of which one may have taken an rvalue's storage.
  std::vector<Tensor> finish(std::vector<Result> outputs);
  // In-place operators: operand 0 is the output. begin_in_place() checks the rules (InplaceError).
  void begin_in_place() const;
  void finish_in_place();

 protected:
  // The end of an operator that is made of others (CompositeScope).
  void finish_composite() {
    empty_rvalues(nullptr);
    unfinished_ = false;
    end_unfinished(info_);
  }

 private:
  friend DType promoted_dtype(const OpInfo&, const In* const*, int, int);
  // What a slot holds, a byte each: an operand's number, an extra's, an output's, or nothing.
  static constexpr u8 kEmptySlot = 255, kOutputSlot = 128, kExtraSlot = 64;
  static constexpr int kMaxSlots = 8;

  WT_HOT Result in_order(int i, DType t) const {
    const In* const in[] = {a_, b_, c_};
    return Result(in_some_order(many_ ? many_ : in, n_, i, t));
  }
  WT_HOT void add_slot(u8 code) { slots_ |= u64(code) << (8 * n_slots_++); }
  WT_HOT u8 slot_code(int k) const { return u8(slots_ >> (8 * k)); }
  WT_HOT void open(Types types, u32 key_difference) {
    outer_op_ = mode.op;
    mode.op = &info_;
    mode.operand = a_;
    if ((key_difference | mode.slow | process_slow.load(std::memory_order_relaxed)) != 0)
        [[unlikely]] {
      const In* const in[] = {a_, b_, c_};
      constant_ = open_slow(info_, outer_op_, in, n_, types);
      repeated_ = (mode.slow & (kSlowNoReuse | kSlowSliced)) != 0;
    }
    bool any = a_->opened()->node != nullptr;
    if (n_ > 1) any |= b_->opened()->node != nullptr;
    if (n_ > 2) any |= c_->opened()->node != nullptr;
    recording_ = any && mode.grad;
    rvalues_ = a_->is_rvalue();
    if (n_ > 1) rvalues_ |= b_->is_rvalue();
    if (n_ > 2) rvalues_ |= c_->is_rvalue();
  }
  // The operand is an rvalue that nobody else can see.
  WT_HOT bool takes(const In& in) const {
    return rvalues_ && in.is_rvalue() && !repeated_ && in.opened()->refs.sole();
  }
  WT_HOT bool may_reuse(int k, const TensorImpl* like) const;
  WT_HOT void make_node(BackwardFn backward);
  WT_HOT void set_edge(int i, bool reused) const;
  WT_HOT void set_edges(const In* reused) const {
    set_edge(0, reused == a_);
    if (n_ > 1) set_edge(1, reused == &input(1));
    if (n_ > 2) set_edge(2, reused == &input(2));
    for (int i = 3; i < n_; ++i) set_edge(i, false);
    node_->n_edges = u16(last_edge());
  }
  // The loops of the engine end at the last edge that leads somewhere; of a list every operand has
  // one.
  WT_HOT int last_edge() const {
    if (many_ || n_ == 1 || node_->edges[n_ - 1].node) return n_;
    return n_ == 3 && node_->edges[1].node ? 2 : 1;
  }
  // `out` points to the outputs.
  WT_HOT void fill_slots(TensorImpl* const* out) const;
  WT_HOT void empty_rvalue(const In& in, const In* reused) const {
    if (!in.is_rvalue()) return;
    in.take();
    if (reused == &in) in.give();
    in.finish_replaced();
  }
  WT_HOT void empty_rvalues(const In* reused) const {
    if (!rvalues_) return;
    empty_rvalue(*a_, reused);
    if (n_ > 1) empty_rvalue(input(1), reused);
    if (n_ > 2) empty_rvalue(input(2), reused);
    for (int i = 3; i < n_; ++i) empty_rvalue(input(i), reused);
  }

  // True where the result bears the mark kConstantDerivative.
  static bool open_slow(const OpInfo& info, const OpInfo* outer, const In* const* in, int n,
                        Types types);
  // One device for all operands: 0-d ones of the cpu go to the others' device (not operand 0 of an
  // operator in place). Throws PlacementError.
  static void bring_together(const OpInfo& info, const In* const* in, int n);
  static TensorImpl* in_some_order(const In* const* in, int n, int i, DType t);
  static void abandon(Node* n);
  static void spill(Node* n, int edges, int slots);
  [[noreturn]] static void saved_inference_tensor(Node* n, const OpInfo& info, int operand,
                                                  Frame at);
  static void fill_extra(SavedSlot& slot, TensorImpl* newest, int older);
  static void release_extras(TensorImpl* newest);
  static void finish_slow(const OpInfo& info, TensorImpl* out, bool constant);
  WT_COLD static void end_observed(const OpInfo& info);
  WT_COLD static void end_unfinished(const OpInfo& info);
  static void open_slices(const OpInfo& info, const In* const* in, int n);
  static void share_slot(Node* n, SavedSlot& slot, u64 codes, u8 code);
  static void drop_stale_node(TensorImpl* out);
  static TensorImpl* new_view(const TensorImpl* base, const Geometry& g, i64 offset, Frame at);
  static std::string message(const OpInfo& info, const In* const* in, int n,
                             const std::string& headline, const std::string& hint);

  const OpInfo& info_;
  const OpInfo* outer_op_;
  const In* a_;
  const In* b_ = nullptr;
  const In* c_ = nullptr;
  const In* const* many_ = nullptr;
  Node* node_ = nullptr;
  u64 slots_ = 0;
  TensorImpl* extra_ = nullptr;  // the newest of the operator's own saved tensors
  int n_;
  int n_slots_ = 0;
  u8 saved_inputs_ = 0;
  u8 n_extra_ = 0;
  bool recording_ = false;
  bool unfinished_ = true;
  bool rvalues_ = true;    // some operand is one (or was not looked at)
  bool repeated_ = false;  // nothing may be taken: f(std::move(x), x), AutopilotScope{false}
  bool constant_ = false;  // an operand is a derivative without a graph, and this is recording
};

// --- hot pieces ---

WT_HOT bool OpScope::may_reuse(int k, const TensorImpl* like) const {
  const TensorImpl* p = impl(k);
  const Storage* s = p->storage;
  if (repeated_ || !p->refs.sole() || !s->refs.sole() || p->flags != 0 || s->borrowed ||
      s->category == Category::dataset || (saved_inputs_ >> k & 1) || !p->geometry.dense ||
      p->key != like->key || (p != like && !same_shape(p->geometry, like->geometry)))
    return false;
  // A leaf that requires grad keeps its identity: its gradient state belongs to the user's handle.
  return !p->node || !p->node->is_leaf();
}

WT_HOT void OpScope::make_node(BackwardFn backward) {
  Node* n = new_node();
  node_ = n;
  n->info = &info_;
  n->backward = backward;
  n->mode_id = mode.id;
  n->frame = mode.frame ? mode.frame : intern_frame(a_->frame());
  n->sequence = mode.sequence;
  if (n_ > kInlineEdges || n_slots_ > kInlineSlots) [[unlikely]]
    spill(n, n_, n_slots_);
  // What saving needs to allocate is allocated here, before the launch.
  for (int k = 0; k < n_slots_; ++k) {
    SavedSlot& slot = n->slots[k];
    const u8 code = slot_code(k);
    slot.tensor = nullptr;
    slot.kind = SlotKind::empty;
    slot.edge = kNoEdge;
    n->n_slots = u16(k + 1);
    if (code >= kExtraSlot) continue;  // outputs, extras and empty ones: in finish()
    const In& in = input(code);
    TensorImpl* p = in.opened();
    slot.edge = p->node ? code : kNoEdge;
    slot.kind = SlotKind::owned;
    if (p->flags & kInference) [[unlikely]] {
      node_ = nullptr;
      saved_inference_tensor(n, info_, code, frame());
    }
    if (p->node && p->node->is_leaf()) {
      slot.tensor = p;  // a leaf: its handle cannot be part of a cycle
      retain(p);
    } else if (!takes(in)) {
      slot.tensor = alias_of(p);
    }  // else: a sole rvalue is moved in by finish()
  }
}

WT_HOT void OpScope::set_edge(int i, bool reused) const {
  const In& in = input(i);
  TensorImpl* p = in.opened();
  Node* from = p->node;
  node_->edges[i] = {from, p->output_index};
  if (!from) return;
  if (from->sequence > node_->sequence) node_->sequence = from->sequence;
  if (reused || (takes(in) && !from->is_leaf() && !(p->flags & kSavedOutput))) {
    p->node = nullptr;  // a sole rvalue hands its node on: no refcount traffic
    return;
  }
  retain(from);
}

WT_HOT void OpScope::fill_slots(TensorImpl* const* out) const {
  for (int k = 0; k < n_slots_; ++k) {
    SavedSlot& slot = node_->slots[k];
    const u8 code = slot_code(k);
    if (code < kExtraSlot) {
      if (!slot.tensor) {  // a sole rvalue: its reference moves from the user to the slot
        const In& in = input(code);
        in.take();
        slot.tensor = in.give();
        if (!slot.tensor) [[unlikely]]
          share_slot(node_, slot, slots_, code);
        else if (slot.tensor->flags & kSavedOutput) [[unlikely]]
          slot.edge = code;
      }
      slot.version = slot.tensor->cell->version;
    } else if (code == kEmptySlot) {
      continue;
    } else if (code >= kOutputSlot) {
      TensorImpl* y = out[code - kOutputSlot];
      slot.tensor = y;
      slot.kind = SlotKind::raw_output;
      slot.edge = kSelf;
      slot.output = u8(code - kOutputSlot);
      slot.version = y->cell->version;
      y->flags |= kSavedOutput;
    } else {
      fill_extra(slot, extra_, n_extra_ - 1 - (code - kExtraSlot));
    }
  }
}

WT_HOT Tensor OpScope::finish(Result y) {
  TensorImpl* out = y.p_;
  y.p_ = nullptr;
  if (y.from_) [[unlikely]] {
    ++out->cell->version;
    detail::count_saved(memory::SavingRule::reuse, out->storage->bytes);
  }
  if (Node* n = node_) {
    set_edges(y.from_);
    n->output.key = out->key;
    n->output.ndim = out->geometry.ndim;
    for (int i = 0; i < out->geometry.ndim; ++i) n->output.shape[i] = out->geometry.shape[i];
    TensorImpl* const outputs[] = {out};
    if (n_slots_) fill_slots(outputs);
    n->sequence += 1;
    mode.sequence = n->sequence;
    node_ = nullptr;
    out->node = n;
    out->output_index = 0;
  } else if (y.from_ && out->node) [[unlikely]] {
    drop_stale_node(out);
  }
  empty_rvalues(y.from_);
  unfinished_ = false;
  if (mode.slow & (kSlowInference | kSlowSaving | kSlowProfile | kSlowConstant | kSlowSliced))
      [[unlikely]]
    finish_slow(info_, out, constant_);
  return Tensor(out);
}

}  // namespace wt
