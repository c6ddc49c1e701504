// Reductions, and the reverse of broadcasting.
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/reduce.h"

namespace wt {
namespace info {
constexpr OpInfo sum{.name = "sum", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo mean{.name = "mean", .derivative = Derivative::linear};
constexpr OpInfo prod{.name = "prod", .autocast = Autocast::f32};
constexpr OpInfo max{.name = "max", .derivative = Derivative::piecewise};
constexpr OpInfo min{.name = "min", .derivative = Derivative::piecewise};
constexpr OpInfo argmax{.name = "argmax", .derivative = Derivative::none};
constexpr OpInfo argmin{.name = "argmin", .derivative = Derivative::none};
constexpr OpInfo any{.name = "any", .derivative = Derivative::none};
constexpr OpInfo all{.name = "all", .derivative = Derivative::none};
constexpr OpInfo sum_to{.name = "sum_to", .derivative = Derivative::linear};
}  // namespace info

namespace {

using detail::axes_of;
using detail::reduced_numel;
using detail::require_computing;
using detail::with_axes;

DType sum_dtype(DType t) { return is_floating(t) ? t : DType::i64; }

// --- sum and mean ---
struct Reduced {
  u32 mask;
  i64 divide_by;
};

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
  run(SumArgs{y.view(), s.view(0), mask, {divide_by}}, s.launch());
  return s.finish(std::move(y));
}

// --- product ---
// Of each element along the last axis, the product of the others: pairs are multiplied, the
// products of the other pairs are those of half as many elements. No division, so zeros and any
// number of derivatives are right.
Tensor product_of_others(const Tensor& x) {
  const i64 n = x.size(-1);
  if (n <= 1) return ones_like(x);
  Shape shape = x.shape();
  Tensor even = x;
  if (n % 2) {
    shape[shape.ndim() - 1] = 1;
    even = cat({x, ones(shape, {.dtype = x.dtype(), .device = x.device()})}, -1);
  }
  const Tensor a = slice(even, -1, {0, n + 1, 2}), b = slice(even, -1, {1, n + 1, 2});
  const Tensor rest = product_of_others(mul(a, b));
  shape[shape.ndim() - 1] = n + n % 2;
  Tensor y = reshape(stack({mul(b, rest), mul(a, rest)}, -1), shape);
  return n % 2 ? slice(std::move(y), -1, {0, n}) : y;
}

// The same over the axes of `mask`.
Tensor product_of_others(const Tensor& x, u32 mask) {
  const Shape shape = x.shape();
  std::vector<int> order, back(size_t(shape.ndim()));
  Shape moved, flat;
  i64 n = 1;
  for (const bool reduced : {false, true})
    for (int i = 0; i < shape.ndim(); ++i) {
      if (bool(mask >> i & 1) != reduced) continue;
      back[size_t(i)] = int(order.size());
      order.push_back(i);
      moved.push_back(shape[i]);
      if (reduced)
        n *= shape[i];
      else
        flat.push_back(shape[i]);
    }
  flat.push_back(n);
  const Tensor others = product_of_others(reshape(permute(x, order), flat));
  return permute(reshape(others, moved), back);
}

void prod_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  const Shape shape = g.input_shape(0);
  const Tensor& x = g.saved(0);
  const DType t = x.dtype();
  Tensor gy = with_axes(g.take_grad(), shape, mask);
  if (mask == 0 || x.numel() == 0) return g.put(0, expand(std::move(gy), shape));
  if (item_size(t) > 2) return g.put(0, mul(product_of_others(x, mask), std::move(gy)));
  // Products of 16-bit roundings would drift.
  Tensor others = product_of_others(to_dtype(x, DType::f32), mask);
  g.put(0, to_dtype(mul(std::move(others), to_dtype(std::move(gy), DType::f32)), t));
}

// --- the largest and the least ---
void max_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  const Shape shape = g.input_shape(0);
  const Tensor &x = g.saved(0), &y = g.saved(1);
  const Tensor ties = to_dtype(eq(x, with_axes(y, shape, mask)), x.dtype());
  Tensor share = with_axes(g.take_grad(), shape, mask);
  share = div(std::move(share), sum(ties, axes_of(mask), {.keep_dim = true}));
  g.put(0, mul(ties, std::move(share)));
}

void require_elements(const OpScope& s, u32 mask) {
  const Geometry& g = s.geometry(0);
  if (reduced_numel(g, mask) == 0)
    s.fail<ShapeError>(str("no element to choose from in shape ", shape_of(g)));
}

Tensor extreme(const OpInfo& op, const In& x, const Dims& dims, SumOptions options, bool least) {
  OpScope s(op, x);
  require_computing(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  require_elements(s, mask);
  s.save_input(0);
  s.save_output();
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), s.dtype());
  s.record(max_backward);
  s.set_attribute(mask);
  run(MaxArgs{y.view(), s.view(0), mask, {least}}, s.launch());
  return s.finish(std::move(y));
}

Tensor place(const OpInfo& op, const In& x, const Dims& dims, SumOptions options, bool least) {
  OpScope s(op, x);
  require_computing(s);
  const Geometry& g = s.geometry(0);
  if (!dims.is_all() && dims.size() != 1)
    s.fail<ShapeError>(str("takes one axis or all of them, not ", dims.size()));
  const u32 mask = s.axes(dims, g.ndim);
  require_elements(s, mask);
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), DType::i64);
  run(ArgmaxArgs{y.view(), s.view(0), mask, {least}}, s.launch());
  return s.finish(std::move(y));
}

Tensor truth(const OpInfo& op, const In& x, const Dims& dims, SumOptions options, bool every) {
  OpScope s(op, x);
  require_computing(s);
  const u32 mask = s.axes(dims, s.geometry(0).ndim);
  Result y =
      s.result(reduced_shape(shape_of(s.geometry(0)), mask, options.keep_dim), DType::boolean);
  run(AnyArgs{y.view(), s.view(0), mask, {every}}, s.launch());
  return s.finish(std::move(y));
}

// --- sum_to ---
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

Tensor prod(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::prod, x);
  require_computing(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  s.save_input(0);
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), sum_dtype(s.dtype()));
  s.record(prod_backward);
  s.set_attribute(mask);
  run(ProdArgs{y.view(), s.view(0), mask}, s.launch());
  return s.finish(std::move(y));
}

Tensor max(const In& x, const Dims& dims, SumOptions options) {
  return extreme(info::max, x, dims, options, false);
}
Tensor min(const In& x, const Dims& dims, SumOptions options) {
  return extreme(info::min, x, dims, options, true);
}
Tensor argmax(const In& x, const Dims& dims, SumOptions options) {
  return place(info::argmax, x, dims, options, false);
}
Tensor argmin(const In& x, const Dims& dims, SumOptions options) {
  return place(info::argmin, x, dims, options, true);
}
Tensor any(const In& x, const Dims& dims, SumOptions options) {
  return truth(info::any, x, dims, options, false);
}
Tensor all(const In& x, const Dims& dims, SumOptions options) {
  return truth(info::all, x, dims, options, true);
}

Tensor sum_to(const In& x, const Shape& shape) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
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
      return run(SumArgs{slot.view(), s.view(0), mask, {1, slot.accumulate}}, s.launch());
  }
  g.put(i, sum_to(std::move(t), g.input_shape(i)));
}

namespace detail {
OpInfos reduce_ops() {
  static constexpr const OpInfo* kOps[] = {&info::sum, &info::mean,   &info::prod,   &info::max,
                                           &info::min, &info::argmax, &info::argmin, &info::any,
                                           &info::all, &info::sum_to};
  return kOps;
}
}  // namespace detail

}  // namespace wt
