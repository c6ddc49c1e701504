// Variance, norms and logsumexp.
#include "warptape/autograd/ops/stats.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/reduce.h"

namespace wt {
namespace info {
constexpr OpInfo var{.name = "var", .autocast = Autocast::f32};
constexpr OpInfo std{.name = "std", .autocast = Autocast::f32};
constexpr OpInfo norm{.name = "norm", .autocast = Autocast::f32};
constexpr OpInfo logsumexp{.name = "logsumexp", .autocast = Autocast::f32};
}  // namespace info

namespace {

using detail::axes_of;
using detail::require_floating;
using detail::with_axes;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 16-bit floats as f32: differences of their roundings would be all that is left of a gradient.
Tensor widened(const Tensor& t) { return item_size(t.dtype()) == 2 ? to_dtype(t, DType::f32) : t; }

// --- var, std ---
struct Spread {
  u32 mask;
  double freedom;  // max(0, n - correction)
};

// d var / dx = 2 (x - mean) / freedom; std = sqrt(var).
void spread_backward(Backward& g, bool root) {
  const auto [mask, freedom] = g.attribute<Spread>();
  const Shape shape = g.input_shape(0);
  const Tensor x = widened(g.saved(0));
  Tensor factor = with_axes(widened(g.take_grad()), shape, mask);
  if (root) {
    const Tensor y = with_axes(widened(g.saved(1)), shape, mask), flat = eq(y, 0);
    factor = div(where(flat, 0, std::move(factor)), mul(where(flat, 1, y), freedom));
  } else {
    factor = mul(std::move(factor), 2 / freedom);
  }
  Tensor gx = mul(detail::centred(x, axes_of(mask)), std::move(factor));
  g.put(0, to_dtype(std::move(gx), g.saved(0).dtype()));
}
void var_backward(Backward& g) { spread_backward(g, false); }
void std_backward(Backward& g) { spread_backward(g, true); }

Tensor spread(const OpInfo& op, const In& x, const Dims& dims, const VarOptions& o, bool root) {
  OpScope s(op, x);
  require_floating(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  s.save_input(0);
  if (root) s.save_output();
  Result y = s.result(reduced_shape(shape_of(g), mask, o.keep_dim), s.dtype());
  s.record(root ? std_backward : var_backward);
  const double n = double(detail::reduced_numel(g, mask));
  s.set_attribute(Spread{mask, std::max(0.0, n - o.correction)});
  run(VarianceArgs{y.view(), s.view(0), mask, {o.correction, root}}, s.launch());
  return s.finish(std::move(y));
}

// --- norm ---
void norm_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  const Shape shape = g.input_shape(0);
  const Tensor &x = g.saved(0), y = with_axes(g.saved(1), shape, mask);
  const Tensor zero = eq(y, 0);
  const Tensor gy = with_axes(g.take_grad(), shape, mask);
  g.put(0, mul(x, div(where(zero, 0, gy), where(zero, 1, y))));
}

void absolute_norm_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  g.put(0, mul(sign(g.saved(0)), with_axes(g.take_grad(), g.input_shape(0), mask)));
}

// p = 2, and p = 1 (`absolute`).
Tensor kernel_norm(const In& x, const Dims& dims, SumOptions options, bool absolute) {
  OpScope s(info::norm, x);
  require_floating(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  s.save_input(0);
  if (!absolute) s.save_output();
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), s.dtype());
  s.record(absolute ? absolute_norm_backward : norm_backward);
  s.set_attribute(mask);
  run(NormArgs{y.view(), s.view(0), mask, {absolute}}, s.launch());
  return s.finish(std::move(y));
}

// sum(|x|^p)^(1/p): roots and powers see a 1 wherever their derivative at 0 is not wanted.
Tensor any_norm(const Tensor& x, double p, const Dims& axes, SumOptions options) {
  const double at_zero = p > 0 ? 0 : kInfinity;
  const Tensor wide = widened(x), zero = eq(wide, 0);
  const Tensor powers = where(zero, at_zero, pow(abs(where(zero, 1, wide)), p));
  const Tensor total = sum(powers, axes, options), empty = eq(total, 0);
  return to_dtype(where(empty, p > 0 ? 0 : kInfinity, pow(where(empty, 1, total), 1 / p)),
                  x.dtype());
}

// --- logsumexp ---
void logsumexp_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  const Shape shape = g.input_shape(0);
  const Tensor& x = g.saved(0);
  const Tensor y = with_axes(widened(g.saved(1)), shape, mask);
  // Of rows of -inf the exponent is -inf - 0, not the NaN of -inf + inf.
  Tensor share = exp(sub(widened(x), where(eq(y, -kInfinity), 0, y)));
  Tensor gx = mul(std::move(share), with_axes(widened(g.take_grad()), shape, mask));
  g.put(0, to_dtype(std::move(gx), x.dtype()));
}

}  // namespace

Tensor var(const In& x, const Dims& dims, VarOptions options) {
  return spread(info::var, x, dims, options, false);
}
Tensor std(const In& x, const Dims& dims, VarOptions options) {
  return spread(info::std, x, dims, options, true);
}

Tensor norm(const In& x, double p, const Dims& dims, SumOptions options) {
  if (p == 1 || p == 2) return kernel_norm(x, dims, options, p == 1);
  CompositeScope s(info::norm, x);
  require_floating(s);
  if (p != p) s.fail<UsageError>("p is NaN");
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  const Dims axes = axes_of(mask);
  const Tensor t = s.operand(0);
  if (std::isinf(p)) {
    if (detail::reduced_numel(g, mask) == 0)
      s.fail<ShapeError>(str("no element to choose from in shape ", shape_of(g)));
    return s.finish(p > 0 ? max(abs(t), axes, options) : min(abs(t), axes, options));
  }
  if (p == 0) return s.finish(to_dtype(sum(ne(t, 0), axes, options), s.dtype()));
  return s.finish(any_norm(t, p, axes, options));
}

Tensor logsumexp(const In& x, const Dims& dims, SumOptions options) {
  OpScope s(info::logsumexp, x);
  require_floating(s);
  const Geometry& g = s.geometry(0);
  const u32 mask = s.axes(dims, g.ndim);
  s.save_input(0);
  s.save_output();
  Result y = s.result(reduced_shape(shape_of(g), mask, options.keep_dim), s.dtype());
  s.record(logsumexp_backward);
  s.set_attribute(mask);
  run(LogsumexpArgs{y.view(), s.view(0), mask}, s.launch());
  return s.finish(std::move(y));
}

namespace detail {
OpInfos stats_ops() {
  static constexpr const OpInfo* kOps[] = {&info::var, &info::std, &info::norm, &info::logsumexp};
  return kOps;
}
}  // namespace detail

}  // namespace wt
