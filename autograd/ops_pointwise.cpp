// Elementwise operators: checks, broadcasting, and the backward that follows from the entry's
// derivatives. The maths is in kernels/pointwise.h.
#include "warptape/kernels/pointwise.h"

#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo add{
    .name = "add", .autocast = Autocast::promote, .derivative = Derivative::linear};
constexpr OpInfo mul{.name = "mul", .autocast = Autocast::promote};
constexpr OpInfo relu{.name = "relu", .derivative = Derivative::piecewise};
constexpr OpInfo relu_backward{.name = "relu_backward", .derivative = Derivative::piecewise};
}  // namespace info

namespace {

// A number beside a tensor: it changes the dtype only when its category is higher. Returns the
// dtype of the operation.
DType dtype_with_scalar(DType t, Scalar v) {
  const int have = promotion_category(t);
  if (v.category() <= have) return t;
  return v.kind == Scalar::Kind::floating ? mode.default_dtype : DType::i64;
}

template <class F>
Result broadcast_result(OpScope& s) {
  const Geometry &a = s.geometry(0), &b = s.geometry(1);
  if (same_shape(a, b)) [[likely]]
    return s.result_like();
  const Shape shape =
      broadcast_shapes(s.info().name, Shape(a.shape, a.ndim), Shape(b.shape, b.ndim));
  for (int i = 0; i < 2; ++i)
    if (Shape(s.geometry(i).shape, s.geometry(i).ndim) == shape) return s.result_like(i);
  return s.result(shape, s.dtype());
}

void put_reduced(Backward& g, u32 i, Tensor t) { g.put(i, sum_to(std::move(t), g.input_shape(i))); }
bool same_shape_as_input(Backward& g, u32 i, const Tensor& t) {
  const Edge& e = g.node->edges[i];
  const OutputInfo& o = e.node->output_info(e.output);
  const Geometry& y = t.impl()->geometry;
  if (o.ndim != y.ndim) return false;
  for (int d = 0; d < y.ndim; ++d)
    if (o.shape[d] != y.shape[d]) return false;
  return true;
}
void put_broadcast(Backward& g, u32 i, Tensor t) {
  if (same_shape_as_input(g, i, t)) [[likely]]
    g.put(i, std::move(t));
  else
    put_reduced(g, i, std::move(t));
}

void add_backward(Backward& g) {
  const bool a = g.wants(0), b = g.node->n_edges > 1 && g.wants(1);
  if (a && b) put_broadcast(g, 0, g.grad());
  if (a && !b) put_broadcast(g, 0, g.take_grad());
  if (b) put_broadcast(g, 1, g.take_grad());
}

void mul_backward(Backward& g) {
  const bool b = g.wants(1);
  if (g.wants(0))
    put_broadcast(g, 0, b ? mul(g.grad(), g.saved(1)) : mul(g.take_grad(), g.saved(1)));
  if (b) put_broadcast(g, 1, mul(g.take_grad(), g.saved(0)));
}

void mul_scalar_backward(Backward& g) { g.put(0, mul(g.take_grad(), g.attribute<Scalar>())); }

// tensor op number
template <class F>
Tensor with_scalar(const OpInfo& info, const In& x, Scalar v, bool scalar_first,
                   BackwardFn backward) {
  OpScope s(info, x);
  const DType t = dtype_with_scalar(s.dtype(), v);
  if (t != s.dtype()) x.replace(to_dtype(Tensor(detail::retained(x.impl())), t));
  Result y = s.result_like();
  s.record(backward);
  s.set_attribute(v);
  PointwiseArgs<F> args{y.view(), {}, v.f, v.to_int()};
  args.in[scalar_first ? 1 : 0] = s.view(0);
  run(args, s.launch());
  return s.finish(std::move(y));
}

[[noreturn]] void two_numbers(const char* op) {
  throw UsageError(str("[", op, "] at least one operand must be a tensor"));
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) {
  if (a.is_scalar() || b.is_scalar()) [[unlikely]] {
    if (a.is_scalar() && b.is_scalar()) two_numbers("add");
    return a.is_scalar() ? with_scalar<pw::Add>(info::add, b, a.scalar(), true, add_backward)
                         : with_scalar<pw::Add>(info::add, a, b.scalar(), false, add_backward);
  }
  OpScope s(info::add, a, b, Types::promote);
  Result y = broadcast_result<pw::Add>(s);
  s.record(add_backward);
  run(PointwiseArgs<pw::Add>{y.view(), {s.view(0), s.view(1)}}, s.launch());
  return s.finish(std::move(y));
}

Tensor mul(const Operand& a, const Operand& b) {
  if (a.is_scalar() || b.is_scalar()) [[unlikely]] {
    if (a.is_scalar() && b.is_scalar()) two_numbers("mul");
    return a.is_scalar()
               ? with_scalar<pw::Mul>(info::mul, b, a.scalar(), true, mul_scalar_backward)
               : with_scalar<pw::Mul>(info::mul, a, b.scalar(), false, mul_scalar_backward);
  }
  OpScope s(info::mul, a, b, Types::promote);
  s.save_input_if(s.wants(1), 0);
  s.save_input_if(s.wants(0), 1);
  Result y = broadcast_result<pw::Mul>(s);
  s.record(mul_backward);
  run(PointwiseArgs<pw::Mul>{y.view(), {s.view(0), s.view(1)}}, s.launch());
  return s.finish(std::move(y));
}

namespace {
Tensor relu_grad(const In& gy, const In& y) {
  OpScope s(info::relu_backward, gy, y);
  Result gx = s.result_like();
  run(PointwiseArgs<pw::UnaryGrad<pw::Relu>>{gx.view(), {s.view(0), s.view(1)}}, s.launch());
  return s.finish(std::move(gx));
}
void relu_backward(Backward& g) {
  const Tensor& y = g.saved(0);
  if (g.recording())
    g.put(0, mul(g.grad(), to_dtype(gt(y, 0), y.dtype())));
  else
    g.put(0, relu_grad(g.take_grad(), y));
}
}  // namespace

Tensor relu(const In& x) {
  OpScope s(info::relu, x);
  s.save_output();
  Result y = s.result_like();
  s.record(relu_backward);
  run(PointwiseArgs<pw::Relu>{y.view(), {s.view(0)}}, s.launch());
  return s.finish(std::move(y));
}

// --- what the engine needs -----------------------------------------------------------------------
namespace detail {

void add_into(TensorImpl* dst, const TensorImpl* src) {
  run(PointwiseArgs<pw::Add>{view_of(dst), {view_of(dst), view_of(src)}},
      Launch{&info::add, mode.native_stream, nullptr, device_of(dst)});
  ++dst->cell->version;
}

void copy_into(TensorImpl* dst, const TensorImpl* src) {
  run(CopyArgs{view_of(dst), view_of(src)},
      Launch{&info::add, mode.native_stream, nullptr, device_of(dst)});
  ++dst->cell->version;
}

void accumulate(TensorImpl*& have, Tensor t) {
  Tensor sum(have);
  have = nullptr;
  have = add(std::move(sum), std::move(t)).release_impl();
}

}  // namespace detail
}  // namespace wt
