// Placeholders until the families land: weak, so that the real definitions win. Remove with the
// last.
#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/pointwise.h"

namespace wt {

__attribute__((weak)) Tensor gt(const Operand& a, const Operand& b) {
  const Tensor x(detail::retained(a.impl()));
  std::vector<u8> r;
  for (double v : x.to_vector<double>()) r.push_back(v > b.scalar().f);
  return tensor(r, {.dtype = DType::boolean, .device = x.device()}).view(x.shape());
}
namespace info {
constexpr OpInfo pending_add_{.name = "add_", .in_place = true};
constexpr OpInfo pending_mul_{.name = "mul_", .in_place = true};
}  // namespace info
static void pending_add_backward(Backward& g) {
  if (g.wants(0)) g.put(0, g.grad());
  if (g.wants(1)) g.put_broadcast(1, g.grad());
}
static void pending_mul_backward(Backward& g) { g.put(0, mul(g.grad(), g.attribute<Scalar>())); }
__attribute__((weak)) Tensor& Tensor::add_(const Tensor& other, Frame at) & {
  const In self(*this, at.file, at.line), from(other, at.file, at.line);
  OpScope s(info::pending_add_, self, from);
  s.begin_in_place();
  s.record(pending_add_backward);
  run(PointwiseArgs<pw::Add>{s.view(0), {s.view(0), s.view(1)}}, s.launch());
  s.finish_in_place();
  return *this;
}
__attribute__((weak)) Tensor& Tensor::mul_(Scalar v, Frame at) & {
  const In self(*this, at.file, at.line);
  OpScope s(info::pending_mul_, self);
  s.begin_in_place();
  s.record(pending_mul_backward);
  s.set_attribute(v);
  run(PointwiseArgs<pw::Mul>{s.view(0), {s.view(0)}, v.f, v.to_int()}, s.launch());
  s.finish_in_place();
  return *this;
}

}  // namespace wt
