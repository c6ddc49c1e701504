// Sorting, counting and drawing. A kernel finds the places; values that need a gradient are
// gathered from them, by an operator that has both derivatives.
#include "warptape/autograd/ops/sort.h"

#include <algorithm>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/random.h"
#include "warptape/kernels/sort.h"

namespace wt {
namespace info {
constexpr OpInfo sort{.name = "sort", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo topk{.name = "topk", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo argsort{.name = "argsort", .derivative = Derivative::none};
constexpr OpInfo bincount{
    .name = "bincount", .derivative = Derivative::none, .data_dependent = true};
constexpr OpInfo multinomial{.name = "multinomial", .derivative = Derivative::none};
}  // namespace info

namespace {

// --- sort, topk ---
// The first k along the axis.
SortResult first_in_order(CompositeScope& s, int axis, i64 k, bool descending) {
  Shape shape = shape_of(s.geometry(0));
  if (shape.ndim() > 0) shape[axis] = k;
  SortResult r;
  r.indices = empty(shape, {.dtype = DType::i64, .device = s.device()});
  const bool differentiated = s.recording() && s.wants(0);
  if (!differentiated) r.values = empty(shape, {.dtype = s.dtype(), .device = s.device()});
  run(SortArgs{differentiated ? View{} : view_of(r.values.impl()), view_of(r.indices.impl()),
               s.view(0), axis, descending},
      s.launch());
  if (differentiated) r.values = gather(s.operand(0), axis, r.indices);
  r.values = s.finish(std::move(r.values));
  return r;
}

// --- multinomial ---
// Throws unless each row of p can be drawn from. Reads values: not on meta.
void require_weights(const OpScope& s, const Tensor& p, i64 draws, bool replacement) {
  const NoGrad no_grad;
  const Tensor bad = logical_not(logical_and(ge(p, 0), isfinite(p)));
  if (any(bad).item() != 0)
    s.fail<UsageError>("p has an element that is negative, infinite or NaN");
  const Tensor there = sum(ne(p, 0), -1);  // how many places of a row have a probability
  const i64 least = i64(min(there).item());
  if (least == 0)
    s.fail<UsageError>(str("row ", i64(argmin(there).item()), " of p has only zeros"));
  if (!replacement && least < draws)
    s.fail<UsageError>(str("row ", i64(argmin(there).item()), " of p has ", least,
                           " places above zero, fewer than the ", draws, " draws"),
                       "{.replacement = true}");
}

// --- bincount ---
i64 bins_for(const OpScope& s, i64 minlength) {
  const Geometry& g = s.geometry(0);
  if (g.ndim != 1) s.fail<ShapeError>(str("x must be 1-d, got shape ", shape_of(g)));
  if (is_floating(g.dtype) || !computes(g.dtype))
    s.fail<DtypeError>(str("x must be i64, i32, u8 or bool, got ", dtype_name(g.dtype)));
  if (minlength < 0) s.fail<UsageError>(str("minlength must not be negative, got ", minlength));
  if (s.device().is_meta)
    s.fail<UsageError>("the shape depends on values, which a meta tensor has not");
  if (g.numel == 0) return minlength;
  const NoGrad no_grad;
  const Tensor x(detail::retained(s.impl(0)));
  const auto value = [](const Tensor& t) { return to_dtype(t, DType::i64).to_vector<i64>()[0]; };
  if (const i64 least = value(min(x)); least < 0)
    s.fail<IndexError>(str("x has a negative element: ", least));
  return std::max(minlength, checked_add(value(max(x)), 1, "the number of bins"));
}

Tensor counted(OpScope& s, const View& weights, DType t, i64 minlength) {
  Result y = s.result(Shape{bins_for(s, minlength)}, t);
  run(BincountArgs{y.view(), s.view(0), weights}, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

SortResult sort(const In& x, Dim axis, SortOptions options) {
  CompositeScope s(info::sort, x);
  detail::require_computing(s);
  const Geometry& g = s.geometry(0);
  const int at = s.axis(axis.value, g.ndim);
  return first_in_order(s, at, g.ndim ? g.shape[at] : 1, options.descending);
}

SortResult topk(const In& x, i64 k, Dim axis, TopkOptions options) {
  CompositeScope s(info::topk, x);
  detail::require_computing(s);
  const Geometry& g = s.geometry(0);
  const int at = s.axis(axis.value, g.ndim);
  const i64 n = g.ndim ? g.shape[at] : 1;
  if (k < 0 || k > n || (g.ndim == 0 && k != 1))
    s.fail<ShapeError>(str("k = ", k, " of ", n, " elements along axis ", at));
  return first_in_order(s, at, k, options.largest);
}

Tensor argsort(const In& x, Dim axis, SortOptions options) {
  OpScope s(info::argsort, x);
  detail::require_computing(s);
  const int at = s.axis(axis.value, s.geometry(0).ndim);
  Result y = s.result(shape_of(s.geometry(0)), DType::i64);
  run(SortArgs{{}, y.view(), s.view(0), at, options.descending}, s.launch());
  return s.finish(std::move(y));
}

Tensor bincount(const In& x, i64 minlength) {
  OpScope s(info::bincount, x);
  return counted(s, {}, DType::i64, minlength);
}

Tensor bincount(const In& x, const In& weights, i64 minlength) {
  OpScope s(info::bincount, x, weights, Types::any);
  if (!is_floating(s.dtype(1)) || !computes(s.dtype(1)))
    s.fail<DtypeError>(str("weights must be floating, got ", dtype_name(s.dtype(1))));
  if (!same_shape(s.geometry(0), s.geometry(1)))
    s.fail<ShapeError>(
        str("weights ", shape_of(s.geometry(1)), " and x ", shape_of(s.geometry(0)), " differ"));
  return counted(s, s.view(1), s.dtype(1), minlength);
}

Tensor multinomial(const In& x, i64 draws, MultinomialOptions options) {
  OpScope s(info::multinomial, x);
  detail::require_floating(s);
  const Geometry& g = s.geometry(0);
  if (g.ndim < 1 || g.ndim > 2)
    s.fail<ShapeError>(str("p must be [places] or [rows, places], got ", shape_of(g)));
  const i64 places = g.shape[g.ndim - 1];
  if (draws < 1) s.fail<UsageError>(str("draws must be positive, got ", draws));
  if (places == 0) s.fail<ShapeError>("p has no places to draw from");
  if (!options.replacement && draws > places)
    s.fail<ShapeError>(str(draws, " draws from ", places, " places"), "{.replacement = true}");
  Shape shape = shape_of(g);
  shape[g.ndim - 1] = draws;
  Tensor p = detach(Tensor(detail::retained(s.impl(0))));
  if (g.numel > 0 && !s.device().is_meta) require_weights(s, p, draws, options.replacement);
  Result y = s.result(shape, DType::i64);
  Geometry rows = y.impl()->geometry;  // a single row is one of [1, draws]
  if (g.ndim == 1) {
    p = unsqueeze(std::move(p), 0);
    rows.ndim = 2;
    rows.shape[0] = 1;
    rows.shape[1] = rows.strides[0] = draws;
    rows.strides[1] = 1;
  }
  detail::random_not_in_a_graph(s.device(), s.frame());
  const RandomCall draw = next_random_call(RandomStream::user);
  run(MultinomialArgs{View{y.view().data, &rows}, view_of(p.impl()), options.replacement, draw.key,
                      draw.call},
      s.launch());
  count_random_call(RandomStream::user, draw);
  return s.finish(std::move(y));
}

namespace detail {
OpInfos sort_ops() {
  static constexpr const OpInfo* kOps[] = {&info::sort, &info::topk, &info::argsort,
                                           &info::bincount, &info::multinomial};
  return kOps;
}
}  // namespace detail

}  // namespace wt
