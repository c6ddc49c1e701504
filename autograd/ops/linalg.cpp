// Products by name, composed of matmul, and cdist: a kernel where a device has it, a norm of
// differences elsewhere and for higher derivatives.
#include "warptape/autograd/ops/linalg.h"

#include <algorithm>
#include <cmath>
#include <vector>

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
constexpr OpInfo tensordot{.name = "tensordot", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo kron{.name = "kron", .composite = true};
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

// --- tensordot, kron ---

namespace {

struct Side {
  std::vector<i64> order;  // of its axes: contracted ones last, or first
  Shape free;
  i64 rows = 1, inner = 1;
};
Side side_of(const OpScope& s, int operand, const std::vector<int>& contracted, bool last) {
  const Shape shape = shape_of(s.geometry(operand));
  Side side;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (std::count(contracted.begin(), contracted.end(), d)) continue;
    side.order.push_back(d);
    side.free.push_back(shape[d]);
    side.rows *= shape[d];
  }
  for (const int d : contracted) side.inner *= shape[d];
  side.order.insert(last ? side.order.end() : side.order.begin(), contracted.begin(),
                    contracted.end());
  return side;
}

Tensor contracted(CompositeScope& s, const Dims& a_dims, const Dims& b_dims) {
  std::vector<int> lists[2];
  for (const int k : {0, 1}) {
    const Dims& dims = k ? b_dims : a_dims;
    const int n = s.geometry(k).ndim;
    s.axes(dims, n);  // refuses repeats
    for (int i = 0; i < (dims.is_all() ? n : int(dims.size())); ++i)
      lists[k].push_back(dims.is_all() ? i : s.axis(dims[i], n));
  }
  require_equal(s, "the numbers of axes of a and b", i64(lists[0].size()), i64(lists[1].size()));
  for (size_t i = 0; i < lists[0].size(); ++i) {
    const int p = lists[0][i], q = lists[1][i];
    const i64 m = s.geometry(0).shape[p], n = s.geometry(1).shape[q];
    if (m != n)
      s.fail<ShapeError>(str("axis ", p, " of a and axis ", q, " of b differ: ", m, " and ", n));
  }
  const Side a = side_of(s, 0, lists[0], true), b = side_of(s, 1, lists[1], false);
  if (a.free.ndim() + b.free.ndim() > kMaxDims)
    s.fail<ShapeError>(str("the result would have ", a.free.ndim() + b.free.ndim(),
                           " dimensions, at most ", kMaxDims));
  Shape result = a.free;
  for (const i64 n : b.free) result.push_back(n);
  check_numel(s, result);
  const Tensor left = reshape(permute(s.operand(0), a.order), {a.rows, a.inner});
  const Tensor right = reshape(permute(s.operand(1), b.order), {b.inner, b.rows});
  return s.finish(reshape(matmul(left, right), result));
}

}  // namespace

Tensor tensordot(const In& a, const In& b, const Dims& a_dims, const Dims& b_dims) {
  CompositeScope s(info::tensordot, a, b, Types::same);
  return contracted(s, a_dims, b_dims);
}

Tensor tensordot(const In& a, const In& b, i64 dims) {
  CompositeScope s(info::tensordot, a, b, Types::same);
  const int n = s.geometry(0).ndim, m = s.geometry(1).ndim;
  if (dims < 0 || dims > n || dims > m)
    s.fail<ShapeError>(
        str("dims must be in [0, ", n < m ? n : m, "], the axes of both, got ", dims));
  std::vector<int> last, first;
  for (int d = 0; d < int(dims); ++d) last.push_back(n - int(dims) + d), first.push_back(d);
  return contracted(s, last, first);
}

Tensor kron(const In& a, const In& b) {
  CompositeScope s(info::kron, a, b);
  const Geometry &g = s.geometry(0), &h = s.geometry(1);
  const int n = g.ndim > h.ndim ? g.ndim : h.ndim;
  if (2 * n > kMaxDims)
    s.fail<ShapeError>(str("takes at most ", kMaxDims / 2, " dimensions, got ", n));
  const auto size = [n](const Geometry& v, int d) {
    return d < n - v.ndim ? 1 : v.shape[d - (n - v.ndim)];
  };
  Shape outside, inside, result;  // a's axes, each before one of size 1; b's, each behind one
  for (int d = 0; d < n; ++d) {
    const i64 p = size(g, d), q = size(h, d);
    i64 both = 0;
    if (!mul_fits(p, q, both)) s.fail<ShapeError>(str("the size of axis ", d, " overflows"));
    outside.push_back(p), outside.push_back(1);
    inside.push_back(1), inside.push_back(q);
    result.push_back(both);
  }
  check_numel(s, result);
  const Tensor x = reshape(s.operand(0), outside), y = reshape(s.operand(1), inside);
  return s.finish(reshape(mul(x, y), result));
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
  static constexpr const OpInfo* kOps[] = {&info::bmm,       &info::addmm, &info::outer, &info::dot,
                                           &info::tensordot, &info::kron,  &info::cdist};
  return kOps;
}
}  // namespace detail

}  // namespace wt
