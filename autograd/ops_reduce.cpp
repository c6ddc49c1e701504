// Reductions, and the reverse of broadcasting.
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/kernels/reduce.h"

namespace wt {
namespace info {
constexpr OpInfo sum{.name = "sum", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo mean{.name = "mean", .derivative = Derivative::linear};
constexpr OpInfo max{.name = "max", .derivative = Derivative::piecewise};
constexpr OpInfo argmax{.name = "argmax", .derivative = Derivative::none};
constexpr OpInfo sum_to{.name = "sum_to", .derivative = Derivative::linear};
}  // namespace info

namespace {

void require_computing(const OpScope& s) {
  if (!computes(s.dtype()))
    s.fail<DtypeError>(str(dtype_name(s.dtype()), " is for storage only and does not compute"),
                       ".to(f32) or another computing dtype first");
}

DType sum_dtype(DType t) { return is_floating(t) ? t : DType::i64; }

i64 reduced_numel(const Geometry& g, u32 mask) {
  i64 n = 1;
  for (int i = 0; i < g.ndim; ++i)
    if (mask >> i & 1) n *= g.shape[i];
  return n;
}

// --- sum and mean --------------------------------------------------------------------------------
struct Reduced {
  u32 mask;
  i64 divide_by;
};

// t lacks the axes of `mask` or has them with size 1: made to broadcast to `shape`.
Tensor with_axes(Tensor t, const Shape& shape, u32 mask) {
  const int left = t.ndim();
  // Missing leading axes are broadcasting's own business.
  if (left == shape.ndim() || mask == (1u << (shape.ndim() - left)) - 1) return t;
  return reshape(std::move(t), reduced_shape(shape, mask, true));
}

void sum_backward(Backward& g) {
  const auto [mask, divide_by] = g.attribute<Reduced>();
  Tensor gy = g.take_grad();
  if (divide_by != 1) gy = div(std::move(gy), double(divide_by));
  const Shape shape = g.input_shape(0);
  g.put(0, expand(with_axes(std::move(gy), shape, mask), shape));
}

Tensor sum_over(OpScope& s, u32 mask, bool keep_dim, i64 divide_by) {
  Result y = s.result(reduced_shape(shape_of(s.geometry(0)), mask, keep_dim), sum_dtype(s.dtype()));
  s.record(sum_backward);
  s.set_attribute(Reduced{mask, divide_by});
  run(SumArgs{y.view(), s.view(0), mask, divide_by}, s.launch());
  return s.finish(std::move(y));
}

// --- max -----------------------------------------------------------------------------------------
void max_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  const Shape shape = g.input_shape(0);
  const Tensor &x = g.saved(0), &y = g.saved(1);
  std::vector<int> axes;
  for (int i = 0; i < shape.ndim(); ++i)
    if (mask >> i & 1) axes.push_back(i);
  const Tensor ties = to_dtype(eq(x, with_axes(y, shape, mask)), x.dtype());
  Tensor share = with_axes(g.take_grad(), shape, mask);
  share = div(std::move(share), sum(ties, axes, {.keep_dim = true}));
  g.put(0, mul(ties, std::move(share)));
}

void require_elements(const OpScope& s, u32 mask) {
  const Geometry& g = s.geometry(0);
  if (reduced_numel(g, mask) == 0)
    s.fail<ShapeError>(str("no element to choose from in shape ", shape_of(g)));
}

// --- sum_to --------------------------------------------------------------------------------------
// The axes of `from` along which `to` was repeated. Throws when it cannot have been.
u32 repeated_axes(const OpScope& s, const Shape& to) {
  const Geometry& g = s.geometry(0);
  const int lead = g.ndim - to.ndim();
  u32 mask = 0;
  bool fits = lead >= 0;
  for (int i = 0; fits && i < g.ndim; ++i) {
    if (i >= lead && to[i - lead] == g.shape[i]) continue;
    fits = i < lead || to[i - lead] == 1;
    mask |= 1u << i;
  }
  if (!fits) s.fail<ShapeError>(str("shape ", to, " does not broadcast to ", shape_of(g)));
  return mask;
}

void sum_to_backward(Backward& g) { g.put(0, expand(g.take_grad(), g.input_shape(0))); }

}  // namespace

Tensor sum(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::sum, x);
  require_computing(s);
  return sum_over(s, s.axes(dims, s.geometry(0).ndim), options.keep_dim, 1);
}

Tensor mean(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::mean, x);
  require_computing(s);
  if (!is_floating(s.dtype()))
    s.fail<DtypeError>(str("the mean of ", dtype_name(s.dtype()), " has no dtype of its own"),
                       ".to(f32) first");
  const u32 mask = s.axes(dims, s.geometry(0).ndim);
  return sum_over(s, mask, options.keep_dim, reduced_numel(s.geometry(0), mask));
}

Tensor max(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::max, x);
  require_computing(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  require_elements(s, mask);
  s.save_input(0);
  s.save_output();
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), s.dtype());
  s.record(max_backward);
  s.set_attribute(mask);
  run(MaxArgs{y.view(), s.view(0), mask}, s.launch());
  return s.finish(std::move(y));
}

Tensor argmax(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::argmax, x);
  require_computing(s);
  const Geometry& g = s.geometry(0);
  if (!dims.is_all() && dims.size() != 1)
    s.fail<ShapeError>(str("takes one axis or all of them, not ", dims.size()));
  const u32 mask = s.axes(dims, g.ndim);
  require_elements(s, mask);
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), DType::i64);
  run(ArgmaxArgs{y.view(), s.view(0), mask}, s.launch());
  return s.finish(std::move(y));
}

Tensor sum_to(const In& x, const Shape& shape) {
  if (!x.impl()) detail::use_of_undefined();
  if (shape_of(x.impl()->geometry) == shape) {
    if (!x.is_rvalue()) return Tensor(detail::retained(x.impl()));
    x.take();
    return Tensor(x.give());
  }
  OpScope s(info::sum_to, x);
  require_computing(s);
  const u32 mask = repeated_axes(s, shape);
  Result y = s.result(shape, sum_dtype(s.dtype()));
  s.record(sum_to_backward);
  run(SumArgs{y.view(), s.view(0), mask}, s.launch());
  return s.finish(std::move(y));
}

void detail::put_sum_to(Backward& g, u32 i, Tensor t) {
  const Edge& e = g.node->edges[i];
  if (!e.node) return;
  if (!t.impl()) return g.put(i, std::move(t));  // which refuses it
  const OutputInfo& wanted = e.node->output_info(e.output);
  const Geometry& have = t.impl()->geometry;
  bool same = wanted.ndim == have.ndim;
  for (int d = 0; same && d < have.ndim; ++d) same = wanted.shape[d] == have.shape[d];
  if (same) return g.put(i, std::move(t));
  if (!g.recording() && wanted.key == t.impl()->key && is_floating(have.dtype)) {
    const In in(t);
    OpScope s(info::sum_to, in);
    const u32 mask = repeated_axes(s, g.input_shape(i));
    if (const GradSlot slot = g.slot(i))
      return run(SumArgs{slot.view(), s.view(0), mask, 1, slot.accumulate}, s.launch());
  }
  g.put(i, sum_to(std::move(t), g.input_shape(i)));
}

namespace detail {
OpInfos reduce_ops() {
  static constexpr const OpInfo* kOps[] = {&info::sum, &info::mean, &info::max, &info::argmax,
                                           &info::sum_to};
  return kOps;
}
}  // namespace detail

}  // namespace wt
