#include "warptape/autograd/custom.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"

namespace wt {

Save::Save() = default;
Save::~Save() = default;
Save::Save(const Save&) = default;
Save& Save::operator=(const Save&) = default;
void Save::operator()(const Tensor& t) { tensors_.push_back(t); }

Grads::Grads(std::initializer_list<Tensor> g) : tensors_(g) {}
Grads::Grads(std::vector<Tensor> g) : tensors_(std::move(g)) {}
size_t Grads::size() const { return tensors_.size(); }
Tensor Grads::take(size_t i) { return std::move(tensors_[i]); }

const Tensor& Saved::operator[](int i) const {
  if (i < 0 || i >= int(g_.node->n_slots))
    throw IndexError(
        str("[", g_.node->info->name, ".backward] saved tensor ", i, " of ", g_.node->n_slots));
  return g_.saved(u32(i));
}

namespace detail {
namespace {

// The heap copy of a custom operator, as its node's attribute.
struct OwnedOp {
  void* op = nullptr;
  void (*deleter)(void*) = nullptr;
  OwnedOp(void* o, void (*d)(void*)) : op(o), deleter(d) {}
  OwnedOp(OwnedOp&& o) noexcept : op(o.op), deleter(o.deleter) { o.op = nullptr; }
  OwnedOp& operator=(OwnedOp&&) = delete;
  ~OwnedOp() {
    if (op) deleter(op);
  }
};

int index_of(const Tensor& t, const std::vector<Tensor>& in) {
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].same_as(t)) return int(i);
  return -1;
}

}  // namespace

CustomForward::CustomForward(const OpInfo& info, const In* const* inputs, int n)
    : grad_before_(mode.grad), frame_before_(mode.frame) {
  for (int i = 0; i < n; ++i) {
    if (!inputs[i]->impl())
      throw UsageError(str("[", info.name, "] operand ", i,
                           " is undefined (never assigned, or moved from)\n  at ",
                           describe(inputs[i]->frame())));
    inputs_.push_back(Tensor(retained(inputs[i]->impl())));
  }
  mode.grad = false;
  if (!mode.frame) mode.frame = intern_frame(inputs[0]->frame());
}

CustomForward::~CustomForward() {
  mode.grad = grad_before_;
  mode.frame = frame_before_;
}

namespace {

// An input that comes back through the operator's inverse, from the output in another slot.
struct InvertedSlot final : PackedSlot {
  Tensor (*invert)(const void*, const Tensor&);
  u32 output;
  InvertedSlot(Tensor (*f)(const void*, const Tensor&), u32 slot) : invert(f), output(slot) {}
  Tensor unpack(Backward& g) override {
    Tensor x = invert(custom_op(g), g.saved(output));
    const OutputInfo& want = g.node->output;  // inverse of a function of one shape and dtype
    if (x.impl() && x.impl()->key == want.key && x.shape() == Shape(want.shape, want.ndim))
      return x.impl()->node ? detach(x) : x;
    throw ShapeError(str("[", g.node->info->name, ".invert] does not give a tensor like the output",
                         "\n  at ", describe_frame(g.node->frame)));
  }
};

// The slot of the output, appended when the operator does not save it; -1: no inversion here.
int slot_to_invert_from(OpScope& s, const CustomCall& call, const Save& save, const Tensor& x,
                        const Tensor& y) {
  if (!call.invert || mode.save != SavePolicy::invert || !(mode.slow & kSlowSaving)) return -1;
  if (!s.recording() || x.impl()->key != y.impl()->key || x.shape() != y.shape()) return -1;
  const std::vector<Tensor>& all = save.tensors();
  for (size_t k = 0; k < all.size(); ++k)
    if (all[k].same_as(y)) return int(k);
  if (!s.has_room_to_save()) return -1;
  s.save_output(0);
  return int(all.size());
}

void pack_inverted(Node* n, const CustomCall& call, int output_slot) {
  for (u32 k = 0; k < n->n_slots; ++k)
    if (n->slots[k].kind == SlotKind::owned && can_pack(n->slots[k]) && n->slots[k].edge == 0)
      pack(n, n->slots[k], std::make_unique<InvertedSlot>(call.invert, u32(output_slot)),
           memory::SavingRule::invert);
}

}  // namespace

std::vector<Tensor> finish_custom(const CustomCall& call, const Save& save,
                                  std::vector<Tensor> outputs) {
  OwnedOp op(call.op, call.deleter);
  OpScope s(call.info, call.inputs, call.n, Types::any);
  std::vector<Tensor> inputs;
  for (int i = 0; i < call.n; ++i) inputs.push_back(Tensor(retained(call.inputs[i]->impl())));
  for (Tensor& y : outputs) {
    if (!y.defined())
      throw UsageError(str("[", call.info.name, "] forward returned an undefined tensor"));
    // An output that is an input (or has a graph of its own) gets its own handle.
    if (index_of(y, inputs) >= 0 || y.impl()->node) y = detach(y);
  }
  for (const Tensor& t : save.tensors()) {
    if (!s.recording()) break;
    if (!s.has_room_to_save())
      throw UsageError(str("[", call.info.name, "] saves more than 8 tensors"));
    if (const int i = index_of(t, inputs); i >= 0)
      s.save_input(i);
    else if (const int k = index_of(t, outputs); k >= 0)
      s.save_output(k);
    else
      s.save_extra(Tensor(alias_of(t.impl())));
  }
  const bool alone = call.n == 1 && outputs.size() == 1;
  const int from = alone ? slot_to_invert_from(s, call, save, inputs[0], outputs[0]) : -1;
  inputs.clear();
  s.record(call.backward);
  s.set_attribute(std::move(op));
  std::vector<Result> results;
  for (Tensor& y : outputs) results.push_back(OpScope::adopt(std::move(y)));
  std::vector<Tensor> finished = s.finish(std::move(results));
  if (from >= 0) pack_inverted(finished[0].impl()->node, call, from);
  return finished;
}

const void* custom_op(const Backward& g) { return g.attribute<OwnedOp>().op; }

std::vector<Tensor> custom_gradients(Backward& g) {
  std::vector<Tensor> gy;
  for (u32 k = 0; k < g.node->n_outputs; ++k) {
    if (g.has_grad(k)) {
      gy.push_back(g.take_grad(k));
      continue;
    }
    const OutputInfo& o = g.node->output_info(k);
    gy.push_back(zeros(Shape(o.shape, o.ndim),
                       {.dtype = DType(o.key & 0xff), .device = device_of_key(o.key)}));
  }
  return gy;
}

void put_custom(Backward& g, Grads grads) {
  if (grads.size() != g.node->n_edges)
    throw UsageError(str("[", g.node->info->name, ".backward] returned ", grads.size(),
                         " gradients instead of ", g.node->n_edges, "\n  recorded by ",
                         describe(g.node)));
  for (u32 i = 0; i < g.node->n_edges; ++i) {
    if (!g.wants(i)) continue;
    Tensor t = grads.take(i);
    if (t.defined()) g.put(i, std::move(t));
  }
}

}  // namespace detail
}  // namespace wt
