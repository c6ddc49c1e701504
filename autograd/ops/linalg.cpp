// Products by name, composed of matmul, and cdist: a kernel where a device has it, a norm of
// differences elsewhere and for higher derivatives.
#include "warptape/autograd/ops/linalg.h"

#include <cmath>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/cdist.h"

namespace wt {
namespace info {
constexpr OpInfo bmm{.name = "bmm", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo addmm{.name = "addmm", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo outer{.name = "outer", .composite = true};
constexpr OpInfo dot{.name = "dot", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo cdist{.name = "cdist", .autocast = Autocast::f32};
}  // namespace info

namespace {

void require_ndim(const OpScope& s, int operand, const char* name, int ndim) {
  const Geometry& g = s.geometry(operand);
  if (g.ndim != ndim)
    s.fail<ShapeError>(str(name, " must have ", ndim, ndim == 1 ? " dimension" : " dimensions",
                           ", got shape ", shape_of(g)));
}
void require_equal(const OpScope& s, const char* what, i64 a, i64 b) {
  if (a != b) s.fail<ShapeError>(str(what, " differ: ", a, " and ", b));
}

Tensor widened(const Tensor& t) { return item_size(t.dtype()) == 2 ? to_dtype(t, DType::f32) : t; }

}  // namespace

Tensor bmm(const In& a, const In& b) {
  CompositeScope s(info::bmm, a, b, Types::same);
  require_ndim(s, 0, "a", 3);
  require_ndim(s, 1, "b", 3);
  const i64 *p = s.geometry(0).shape, *q = s.geometry(1).shape;
  require_equal(s, "the batches of a and b", p[0], q[0]);
  require_equal(s, "the columns of a and the rows of b", p[2], q[1]);
  return s.finish(matmul(s.operand(0), s.operand(1)));
}

Tensor addmm(const In& x, const In& a, const In& b, AddmmOptions options) {
  CompositeScope s(info::addmm, x, a, b, Types::same);
  require_ndim(s, 1, "a", 2);
  require_ndim(s, 2, "b", 2);
  const i64 *p = s.geometry(1).shape, *q = s.geometry(2).shape;
  require_equal(s, "the columns of a and the rows of b", p[1], q[0]);
  const Shape shape{p[0], q[1]}, added = shape_of(s.geometry(0));
  bool fits = added.ndim() <= 2;
  for (int d = 1; fits && d <= added.ndim(); ++d)
    fits = added[added.ndim() - d] == 1 || added[added.ndim() - d] == shape[2 - d];
  if (!fits) s.fail<ShapeError>(str("x ", added, " does not broadcast to ", shape));
  const bool plain = options.alpha.to_double() == 1 && options.beta.to_double() == 1;
  if (plain && is_floating(s.dtype()) && added == Shape{shape[1]})  // the bias of a linear layer
    return s.finish(linear(s.operand(1), transpose(s.operand(2), 0, 1), s.operand(0)));
  // The product of 16-bit floats is not rounded before the sum.
  Tensor y = matmul(widened(s.operand(1)), widened(s.operand(2)));
  if (options.alpha.to_double() != 1) y = mul(std::move(y), options.alpha);
  if (options.beta.to_double() != 0) {
    Tensor plus = widened(s.operand(0));
    if (options.beta.to_double() != 1) plus = mul(std::move(plus), options.beta);
    y = add(std::move(plus), std::move(y));
  }
  return s.finish(to_dtype(std::move(y), s.dtype()));
}

Tensor outer(const In& a, const In& b) {
  CompositeScope s(info::outer, a, b);
  require_ndim(s, 0, "a", 1);
  require_ndim(s, 1, "b", 1);
  return s.finish(mul(unsqueeze(s.operand(0), 1), s.operand(1)));
}

Tensor dot(const In& a, const In& b) {
  CompositeScope s(info::dot, a, b, Types::same);
  require_ndim(s, 0, "a", 1);
  require_ndim(s, 1, "b", 1);
  require_equal(s, "the sizes of a and b", s.geometry(0).shape[0], s.geometry(1).shape[0]);
  return s.finish(matmul(s.operand(0), s.operand(1)));
}

// --- cdist ---

namespace {

// The shape of the result.
Shape check_points(const OpScope& s, double p) {
  detail::require_floating(s);
  if (!(p >= 0)) s.fail<UsageError>(str("p must not be negative, got ", p));
  const Geometry &g = s.geometry(0), &h = s.geometry(1);
  if (g.ndim < 2 || h.ndim < 2) s.fail<ShapeError>("a and b need at least two dimensions");
  require_equal(s, "the columns of a and b", g.shape[g.ndim - 1], h.shape[h.ndim - 1]);
  Shape y = broadcast_operands(s, Shape(g.shape, g.ndim - 2), Shape(h.shape, h.ndim - 2));
  y.push_back(g.shape[g.ndim - 2]);
  y.push_back(h.shape[h.ndim - 2]);
  check_numel(s, y);
  return y;
}

Shape with_sizes(Shape batch, i64 rows, i64 columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
// t [.., n, d] as [B, n, d], B for all of `batch`; copied where axes do not merge.
Tensor in_batches(const Tensor& t, const Shape& batch) {
  const NoGrad no_grad;
  const i64 n = t.size(-2), d = t.size(-1);
  return reshape(expand(t, with_sizes(batch, n, d)), {numel_of(batch), n, d});
}
Tensor handle(TensorImpl* p) { return Tensor(detail::retained(p)); }

// The derivative of the p-norm of d by d, from operators. Quotients and powers see a 1 wherever
// they would be 0 / 0.
Tensor norm_slope(const Tensor& d, double p) {
  if (p == 1) return sign(d);
  const Tensor y = norm(d, p, {-1}, {.keep_dim = true});
  if (std::isinf(p)) return mul(sign(d), to_dtype(eq(abs(d), y), d.dtype()));
  const Tensor none = eq(y, 0), size = where(none, 1, y);
  if (p == 2) return where(none, 0, div(d, size));
  const Tensor flat = logical_or(none, eq(d, 0));
  return mul(sign(d), where(flat, 0, pow(where(flat, 1, div(abs(d), size)), p - 1)));
}
void cdist_composite(Backward& g, double p) {
  const DType t = g.saved(0).dtype();
  const Tensor d = sub(unsqueeze(widened(g.saved(0)), -2), unsqueeze(widened(g.saved(1)), -3));
  // Of no coordinates there is no largest.
  const Tensor slope = norm_slope(d, d.size(-1) == 0 ? 1 : p);
  const Tensor pulls = mul(unsqueeze(widened(g.grad()), -1), slope);
  if (g.wants(0)) g.put_broadcast(0, to_dtype(sum(pulls, -2), t));
  if (g.wants(1)) g.put_broadcast(1, to_dtype(neg(sum(pulls, -3)), t));
}

// The distances as the kernel wants them. Of 16-bit points the result was rounded: once more, in
// f32.
Tensor saved_distances(Backward& g, const Tensor& a, const Tensor& b, double p) {
  const Shape shape{a.size(0), a.size(1), b.size(1)};
  if (g.node->n_slots > 2) return reshape(g.saved(2), shape);
  Tensor y = empty(shape, {.dtype = DType::f32, .device = a.device()});
  run(CdistForwardArgs{view_of(y.impl()), view_of(a.impl()), view_of(b.impl()), p}, g.launch());
  return y;
}
bool has_cdist_kernels(Device d) { return ContractTable<CdistForwardArgs>::rows[int(d.kind)]; }

void cdist_backward(Backward& g) {
  const double p = g.attribute<double>();
  if (g.recording() || !has_cdist_kernels(g.grad().device())) return cdist_composite(g, p);
  const NoGrad no_grad;
  const Shape shape = g.grad().shape(), batch(shape.data(), shape.ndim() - 2);
  const Tensor a = in_batches(g.saved(0), batch), b = in_batches(g.saved(1), batch);
  const Tensor y = saved_distances(g, a, b, p), gy = reshape(g.grad(), y.shape());
  const auto fresh = [&](u32 i, const Tensor& like) {
    const TensorOptions o{.dtype = like.dtype(), .device = like.device()};
    return g.wants(i) ? empty(like.shape(), o) : Tensor();
  };
  Tensor ga = fresh(0, a), gb = fresh(1, b);
  const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
  run(CdistBackwardArgs{view(ga), view(gb), view(gy), view(y), view(a), view(b), p}, g.launch());
  const auto put = [&](u32 i, Tensor t) {
    const Shape own = with_sizes(batch, t.size(1), t.size(2));
    g.put_broadcast(i, reshape(std::move(t), own));
  };
  if (g.wants(0)) put(0, std::move(ga));
  if (g.wants(1)) put(1, std::move(gb));
}

void launch_cdist(const OpScope& s, const Result& y, const Shape& batch, double p) {
  const Tensor a = in_batches(handle(s.impl(0)), batch), b = in_batches(handle(s.impl(1)), batch);
  const Tensor out = in_batches(handle(y.impl()), batch);
  run(CdistForwardArgs{view_of(out.impl()), view_of(a.impl()), view_of(b.impl()), p}, s.launch());
}
// Where there is no kernel.
Tensor norm_of_differences(const OpScope& s, double p) {
  const NoGrad no_grad;
  const Tensor a = widened(handle(s.impl(0))), b = widened(handle(s.impl(1)));
  const Tensor d = sub(unsqueeze(a, -2), unsqueeze(b, -3));
  // No coordinates: the distance is 0, which the largest of nothing would not be.
  return to_dtype(norm(d, d.size(-1) == 0 ? 1 : p, -1), s.dtype());
}

}  // namespace

Tensor cdist(const In& a, const In& b, double p) {
  OpScope s(info::cdist, a, b);
  const Shape shape = check_points(s, p), batch(shape.data(), shape.ndim() - 2);
  const bool kernel = has_cdist_kernels(s.device()), wants = p > 0;
  if (wants) {
    s.save_input(0);
    s.save_input(1);
    if (kernel && item_size(s.dtype()) > 2) s.save_output();
  }
  Result y = kernel ? s.result(shape, s.dtype()) : OpScope::adopt(norm_of_differences(s, p));
  if (wants) s.record(cdist_backward);  // how many differ has no derivative
  s.set_attribute(p);
  if (kernel) launch_cdist(s, y, batch, p);
  return s.finish(std::move(y));
}

namespace detail {
OpInfos linalg_ops() {
  static constexpr const OpInfo* kOps[] = {&info::bmm, &info::addmm, &info::outer, &info::dot,
                                           &info::cdist};
  return kOps;
}
}  // namespace detail

}  // namespace wt
