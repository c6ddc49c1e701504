#include "warptape/autograd/custom.h"

#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"

namespace wt {

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
      throw UsageError(str("[", info.name, "] operand ", i, " is undefined\n  at ",
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
  inputs.clear();
  s.record(call.backward);
  s.set_attribute(std::move(op));
  std::vector<Result> results;
  for (Tensor& y : outputs) results.push_back(OpScope::adopt(std::move(y)));
  return s.finish(std::move(results));
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
