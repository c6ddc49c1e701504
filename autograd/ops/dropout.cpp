// Dropout. Its draw is an attribute of the node, taken once: backward and recomputation use it
// again, and no mask is kept.
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/dropout_draw.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/in_place.h"
#include "warptape/core/random.h"
#include "warptape/kernels/dropout.h"

namespace wt {
namespace info {
constexpr OpInfo dropout{.name = "dropout", .derivative = Derivative::linear};
constexpr OpInfo dropout_{.name = "dropout_", .derivative = Derivative::linear, .in_place = true};
}  // namespace info

namespace {

using Draw = detail::DropoutDraw;

void dropout_backward(Backward& g);

// `base`: see RandomCall. Saved, so that its version is checked and it outlives the node.
void begin_draw(OpScope& s, const Tensor& base) {
  detail::require_floating(s);
  if (base.defined() && base.device() != s.device())
    s.fail<PlacementError>(str("the training step draws on ", to_string(base.device())),
                           ".to(Device) on the operand");
  if (base.defined() && s.recording()) s.save_extra(base);
}
void launch_draw(const OpScope& s, const View& out, const Draw& d, const Tensor& base) {
  DropoutArgs args{out, s.view(0), d.key, d.call};
  if (base.defined()) args.call_base = static_cast<const i64*>(base.impl()->data);
  args.threshold = d.threshold();
  args.scale = d.scale();
  run(args, s.launch());
}

}  // namespace

Tensor detail::dropout_with(const In& x, const Draw& d, const Tensor& base) {
  OpScope s(info::dropout, x);
  begin_draw(s, base);
  Result y = s.result_in_order();
  s.record(dropout_backward);
  s.set_attribute(d);
  launch_draw(s, y.view(), d, base);
  return s.finish(std::move(y));
}

namespace {

// Linear: the gradient goes through the same function, also when it is recorded.
void dropout_backward(Backward& g) {
  const Tensor base = g.node->n_slots ? g.saved(0) : Tensor();
  g.put(0, detail::dropout_with(g.take_grad(), g.attribute<Draw>(), base));
}

Tensor dropout_again(Node& n, const Tensor& x, const Tensor* saved) {
  return detail::dropout_with(x, n.attribute<Draw>(), n.n_slots ? saved[0] : Tensor());
}

}  // namespace

Tensor dropout(const In& x, double p, bool training) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  detail::check_probability("dropout", p, x.frame());
  if (!training || p == 0) {
    if (!x.is_rvalue()) return Tensor(detail::retained(x.impl()));
    x.take();
    return Tensor(x.give());
  }
  const RandomCall draw = detail::next_dropout_call(x.frame());
  Tensor y = detail::dropout_with(x, {draw.key, draw.call, p}, draw.base);
  count_random_call(RandomStream::dropout, draw);  // only now: a call that throws has drawn nothing
  return y;
}

Tensor& Tensor::dropout_(double p, bool training, Frame at) & {
  checked(at);
  detail::check_probability("dropout_", p, at);
  if (!training || p == 0) return *this;
  const RandomCall draw = detail::next_dropout_call(at);
  if (!mode.recomputation || !detail::leaves_alone(p_)) {
    const Draw d{draw.key, draw.call, p};
    const In self(*this, at.file, at.line);
    OpScope s(info::dropout_, self);
    begin_draw(s, draw.base);
    detail::check_writable(s);
    s.begin_in_place();
    s.record(dropout_backward);
    s.set_attribute(d);
    launch_draw(s, s.view(0), d, draw.base);
    s.finish_in_place();
  }
  count_random_call(RandomStream::dropout, draw);
  return *this;
}
Tensor Tensor::dropout_(double p, bool training, Frame at) && {
  dropout_(p, training, at);
  return std::move(*this);
}

namespace detail {
OpSavings dropout_savings() {
  static constexpr OpSaving kSavings[] = {{.op = &info::dropout, .again = dropout_again},
                                          {.op = &info::dropout_, .again = dropout_again}};
  return kSavings;
}
OpInfos dropout_ops() {
  static constexpr const OpInfo* kOps[] = {&info::dropout, &info::dropout_};
  return kOps;
}
}  // namespace detail

}  // namespace wt
