// Products by name, and cdist: composed of matmul and norm.
#include "warptape/autograd/ops/linalg.h"

#include <cmath>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"

namespace wt {
namespace info {
constexpr OpInfo bmm{.name = "bmm", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo addmm{.name = "addmm", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo outer{.name = "outer", .composite = true};
constexpr OpInfo dot{.name = "dot", .autocast = Autocast::lower, .composite = true};
constexpr OpInfo cdist{.name = "cdist", .autocast = Autocast::f32, .composite = true};
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

Tensor cdist(const In& a, const In& b, double p) {
  CompositeScope s(info::cdist, a, b, Types::same);
  detail::require_floating(s);
  if (!(p >= 0)) s.fail<UsageError>(str("p must not be negative, got ", p));
  const Geometry &g = s.geometry(0), &h = s.geometry(1);
  if (g.ndim < 2 || h.ndim < 2) s.fail<ShapeError>("a and b need at least two dimensions");
  const i64 d = g.shape[g.ndim - 1];
  require_equal(s, "the columns of a and b", d, h.shape[h.ndim - 1]);
  // No coordinates: the distance is 0, which the largest of nothing would not be.
  if (d == 0) p = 1;
  const Tensor x = widened(s.operand(0)), y = widened(s.operand(1));
  return s.finish(to_dtype(norm(sub(unsqueeze(x, -2), unsqueeze(y, -3)), p, -1), s.dtype()));
}

namespace detail {
OpInfos linalg_ops() {
  static constexpr const OpInfo* kOps[] = {&info::bmm, &info::addmm, &info::outer, &info::dot,
                                           &info::cdist};
  return kOps;
}
}  // namespace detail

}  // namespace wt
