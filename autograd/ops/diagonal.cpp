// Triangles and diagonals. A diagonal is a view; its gradient is a copy into the same view of
// zeros.
#include "warptape/autograd/ops/diagonal.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo tril{.name = "tril", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo triu{.name = "triu", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo diagonal{.name = "diagonal", .derivative = Derivative::linear, .view = true};
constexpr OpInfo diagonal_backward{.name = "diagonal_backward", .derivative = Derivative::linear};
constexpr OpInfo diag{.name = "diag", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo diag_embed{
    .name = "diag_embed", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo trace{.name = "trace",
                       .autocast = Autocast::f32,
                       .derivative = Derivative::linear,
                       .composite = true};
}  // namespace info

namespace {

// --- triangles ---
Scalar zero_of(DType t) {
  return is_floating(t) ? Scalar(0.0) : t == DType::boolean ? Scalar(false) : Scalar(0);
}

Tensor triangle(CompositeScope& s, i64 k, bool lower) {
  const Geometry& g = s.geometry(0);
  if (g.ndim < 2) s.fail<ShapeError>("needs at least two dimensions");
  if (!computes(g.dtype))
    s.fail<DtypeError>(str(dtype_name(g.dtype), " is for storage only and does not compute"));
  const i64 rows = g.shape[g.ndim - 2], columns = g.shape[g.ndim - 1];
  const TensorOptions o{.dtype = DType::i64, .device = s.device()};
  const Tensor column = arange(columns, o);
  // Beyond the corners nothing changes, and the sum cannot overflow.
  const Tensor limit = add(unsqueeze(arange(rows, o), 1), std::clamp(k, -rows, columns));
  const Tensor keep = lower ? le(column, limit) : ge(column, limit);
  return s.finish(where(keep, s.operand(0), zero_of(g.dtype)));
}

// --- diagonals ---
struct DiagonalOf {
  i64 offset;
  int axis1, axis2;
};

DiagonalOf diagonal_of(const OpScope& s, int ndim, i64 offset, i64 axis1, i64 axis2) {
  if (ndim < 2) s.fail<ShapeError>("needs at least two dimensions");
  const DiagonalOf d{offset, s.axis(axis1, ndim), s.axis(axis2, ndim)};
  if (d.axis1 == d.axis2)
    s.fail<ShapeError>(str("axis1 and axis2 must differ, both are axis ", d.axis1));
  return d;
}

// Narrows a view to its diagonal: the two axes are replaced by a last one.
void keep_diagonal(Window& w, const DiagonalOf& d) {
  const Geometry& g = w.geometry;
  const i64 rows = g.shape[d.axis1], columns = g.shape[d.axis2];
  const i64 offset = std::clamp(d.offset, -rows, columns);
  const i64 length = std::min(rows + std::min<i64>(offset, 0), columns - std::max<i64>(offset, 0));
  if (length > 0) offset < 0 ? w.move_along(d.axis1, -offset) : w.move_along(d.axis2, offset);
  Shape shape, strides;
  for (int i = 0; i < g.ndim; ++i)
    if (i != d.axis1 && i != d.axis2) shape.push_back(g.shape[i]), strides.push_back(g.strides[i]);
  shape.push_back(length);
  strides.push_back(g.strides[d.axis1] + g.strides[d.axis2]);
  w.geometry = geometry_with(g, shape, strides);
}

void diagonal_node_backward(Backward& g) {
  const auto d = g.attribute<DiagonalOf>();
  g.put(0, diagonal_backward(g.take_grad(), g.input_shape(0), d.offset, d.axis1, d.axis2));
}
void diagonal_backward_node_backward(Backward& g) {
  const auto d = g.attribute<DiagonalOf>();
  g.put(0, diagonal(g.take_grad(), d.offset, d.axis1, d.axis2));
}

// The shape of matrices with x's last axis on a diagonal.
Shape embedded_shape(const OpScope& s, const DiagonalOf& d) {
  const Geometry& g = s.geometry(0);
  const i64 away = d.offset < 0 ? -(d.offset + 1) : d.offset;  // of INT64_MIN too
  i64 n = 0;
  if (!add_fits(g.shape[g.ndim - 1], away, n) || !add_fits(n, i64{d.offset < 0}, n))
    s.fail<ShapeError>(str("offset ", d.offset, ": the size of the matrix overflows 64 bits"));
  Shape shape;
  for (int i = 0, from = 0; i < g.ndim + 1; ++i)
    shape.push_back(i == d.axis1 || i == d.axis2 ? n : g.shape[from++]);
  check_numel(s, shape);
  return shape;
}

Tensor embed(CompositeScope& s, i64 offset, i64 axis1, i64 axis2) {
  const int ndim = s.geometry(0).ndim + 1;
  if (ndim > kMaxDims)
    s.fail<ShapeError>(str("the result would have ", ndim, " dimensions, at most ", kMaxDims));
  const DiagonalOf d = diagonal_of(s, ndim, offset, axis1, axis2);
  return s.finish(diagonal_backward(s.operand(0), embedded_shape(s, d), offset, d.axis1, d.axis2));
}

}  // namespace

Tensor tril(const In& x, i64 k) {
  CompositeScope s(info::tril, x);
  return triangle(s, k, true);
}
Tensor triu(const In& x, i64 k) {
  CompositeScope s(info::triu, x);
  return triangle(s, k, false);
}

Tensor diagonal(const In& x, i64 offset, i64 axis1, i64 axis2) {
  OpScope s(info::diagonal, x);
  const Geometry& g = s.geometry(0);
  const DiagonalOf d = diagonal_of(s, g.ndim, offset, axis1, axis2);
  Window w({nullptr, &g});
  keep_diagonal(w, d);
  const i64 moved = std::clamp(offset, -g.shape[d.axis1], g.shape[d.axis2]);
  const i64 first = moved < 0 ? -moved * g.strides[d.axis1] : moved * g.strides[d.axis2];
  Result y = s.view_result(w.geometry, w.geometry.numel > 0 ? first : 0);
  s.record(diagonal_node_backward);
  s.set_attribute(d);
  return s.finish(std::move(y));
}

Tensor diagonal_backward(const In& gout, const Shape& shape, i64 offset, i64 axis1, i64 axis2) {
  OpScope s(info::diagonal_backward, gout);
  const DiagonalOf d = diagonal_of(s, shape.ndim(), offset, axis1, axis2);
  check_shape(s, shape);
  Result y = s.result(shape, s.dtype());
  Window w(y.view());
  keep_diagonal(w, d);
  if (shape_of(w.geometry) != shape_of(s.geometry(0)))
    s.fail<ShapeError>(str("diagonal ", offset, " of axes ", d.axis1, " and ", d.axis2,
                           " of shape ", shape, " has shape ", shape_of(w.geometry)));
  s.record(diagonal_backward_node_backward);
  s.set_attribute(d);
  run(FillArgs{y.view()}, s.launch());
  run(CopyArgs{w.view(), s.view(0)}, s.launch());
  return s.finish(std::move(y));
}

Tensor diag(const In& x, i64 offset) {
  CompositeScope s(info::diag, x);
  const int ndim = s.geometry(0).ndim;
  if (ndim == 1) return embed(s, offset, 0, 1);
  if (ndim != 2) s.fail<ShapeError>(str("expected 1 or 2 dimensions, got ", ndim));
  return s.finish(clone(diagonal(s.operand(0), offset)));
}

Tensor diag_embed(const In& x, i64 offset, i64 axis1, i64 axis2) {
  CompositeScope s(info::diag_embed, x);
  if (s.geometry(0).ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  return embed(s, offset, axis1, axis2);
}

Tensor trace(const In& x) {
  CompositeScope s(info::trace, x);
  detail::require_computing(s);
  if (s.geometry(0).ndim != 2)
    s.fail<ShapeError>(str("expected 2 dimensions, got ", int(s.geometry(0).ndim)));
  return s.finish(sum(diagonal(s.operand(0))));
}

namespace detail {
OpInfos diagonal_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::tril, &info::triu,       &info::diagonal, &info::diagonal_backward,
      &info::diag, &info::diag_embed, &info::trace};
  return kOps;
}
}  // namespace detail

}  // namespace wt
