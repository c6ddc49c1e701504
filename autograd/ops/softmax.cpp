// softmax and log_softmax. Their backward reads the output only, so an rvalue input is worked on in
// place.
#include "warptape/autograd/ops/softmax.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/kernels/softmax.h"

namespace wt {
namespace info {
constexpr OpInfo softmax{.name = "softmax", .autocast = Autocast::f32};
constexpr OpInfo log_softmax{.name = "log_softmax", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct SoftmaxAttributes {
  int axis;
  bool log;
};

Tensor softmax_gradient(const OpInfo& op, const In& gy, const In& y, SoftmaxAttributes a) {
  OpScope s(op, gy, y);
  Result gx = s.result_like(0);
  run(SoftmaxBackwardArgs{gx.view(), s.view(0), s.view(1), a.axis, a.log}, s.launch());
  return s.finish(std::move(gx));
}

void softmax_backward(Backward& g) {
  const auto a = g.attribute<SoftmaxAttributes>();
  const Tensor& y = g.saved(0);
  if (!g.recording()) return g.put(0, softmax_gradient(*g.node->info, g.take_grad(), y, a));
  const Tensor& gy = g.grad();
  const Dims axis = y.ndim() == 0 ? Dims{} : Dims(a.axis);
  if (a.log)
    g.put(0, sub(gy, mul(exp(y), sum(gy, axis, {.keep_dim = true}))));
  else
    g.put(0, mul(y, sub(gy, sum(mul(gy, y), axis, {.keep_dim = true}))));
}

Tensor softmax_of(const OpInfo& op, const In& x, Dim dim, bool log) {
  OpScope s(op, x);
  detail::require_floating(s);
  const SoftmaxAttributes a{s.axis(dim.value, s.geometry(0).ndim), log};
  s.save_output();
  Result y = s.result_like();
  s.record(softmax_backward);
  s.set_attribute(a);
  run(SoftmaxForwardArgs{y.view(), s.view(0), a.axis, a.log}, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor softmax(const In& x, Dim axis) { return softmax_of(info::softmax, x, axis, false); }
Tensor log_softmax(const In& x, Dim axis) { return softmax_of(info::log_softmax, x, axis, true); }

namespace detail {
OpInfos softmax_ops() {
  static constexpr const OpInfo* kOps[] = {&info::softmax, &info::log_softmax};
  return kOps;
}
}  // namespace detail

}  // namespace wt
