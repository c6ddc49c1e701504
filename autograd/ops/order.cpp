// Elements by their order, made of argsort, gather and sums: a place is found without a gradient,
// the value is gathered from it with both derivatives.
#include "warptape/autograd/ops/order.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/scan.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/factories.h"

namespace wt {
namespace info {
constexpr OpInfo max_with_indices{
    .name = "max_with_indices", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo min_with_indices{
    .name = "min_with_indices", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo median{.name = "median", .derivative = Derivative::piecewise, .composite = true};
constexpr OpInfo nanmedian{
    .name = "nanmedian", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo kthvalue{.name = "kthvalue", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo quantile{.name = "quantile", .composite = true};
constexpr OpInfo count_nonzero{
    .name = "count_nonzero", .derivative = Derivative::none, .composite = true};
constexpr OpInfo unique{
    .name = "unique", .derivative = Derivative::none, .data_dependent = true, .composite = true};
constexpr OpInfo searchsorted{
    .name = "searchsorted", .derivative = Derivative::none, .composite = true};
constexpr OpInfo bucketize{.name = "bucketize", .derivative = Derivative::none, .composite = true};
}  // namespace info

namespace {

constexpr SumOptions kKeep{.keep_dim = true};

// Operand 0 with at least one axis, and the one that is meant.
struct Line {
  Tensor x;
  int axis;
  i64 n;
};
Line line_of(const CompositeScope& s, Dim axis) {
  detail::require_computing(s);
  const Geometry& g = s.geometry(0);
  const int at = s.axis(axis.value, g.ndim);
  if (g.ndim == 0) return {unsqueeze(s.operand(0), 0), 0, 1};
  if (g.shape[at] == 0) s.fail<ShapeError>(str("no element to choose from along axis ", at));
  return {s.operand(0), at, g.shape[at]};
}

// The element at `place` (size 1 along the axis), and the place.
PlacedResult picked(CompositeScope& s, const Line& l, const Tensor& place, SumOptions options) {
  PlacedResult r{gather(l.x, l.axis, place), place};
  if (!options.keep_dim || s.geometry(0).ndim == 0) {
    r.values = squeeze(std::move(r.values), l.axis);
    r.indices = squeeze(std::move(r.indices), l.axis);
  }
  r.values = s.finish(std::move(r.values));
  return r;
}

PlacedResult extreme_place(const OpInfo& op, const In& x, Dim axis, SumOptions options,
                           bool least) {
  CompositeScope s(op, x);
  const Line l = line_of(s, axis);
  const Dims dims(l.axis);
  return picked(s, l, least ? argmin(l.x, dims, kKeep) : argmax(l.x, dims, kKeep), options);
}

// The place of the lower median, i64 with size 1 along the axis. NaN comes last in order: `skip`
// takes the median of what is before, else the first NaN counts.
Tensor middle_place(const Line& l, bool skip) {
  const NoGrad no_grad;
  const Tensor x = detach(l.x), order = argsort(x, l.axis);
  const i64 middle = (l.n - 1) / 2;
  if (!is_floating(x.dtype())) return slice(order, l.axis, {middle, middle + 1});
  const Tensor numbers = sub(l.n, sum(isnan(x), Dims(l.axis), kKeep));
  if (!skip) return gather(order, l.axis, where(eq(numbers, l.n), middle, numbers));
  // (numbers - 1) / 2; f64 has every size.
  const Tensor half = floor(mul(to_dtype(sub(numbers, 1), DType::f64), 0.5));
  return gather(order, l.axis, to_dtype(maximum(half, 0.0), DType::i64));
}

Scalar least_of(DType t) {
  if (is_floating(t)) return -std::numeric_limits<double>::infinity();
  if (t == DType::boolean) return false;
  return t == DType::u8 ? i64{0} : t == DType::i32 ? i64{INT32_MIN} : INT64_MIN;
}

// --- quantile ---
// Elements `places` (1-d) of the sorted rows, which lie along the first axis.
Tensor rows_at(const Tensor& sorted, const Tensor& places) {
  return index_select(sorted, 0, to_dtype(places, DType::i64));
}

// q (n - 1) for each q, in f64: f32 has no odd numbers beyond 2^24. While it resolves a sixteenth
// of an element, a q that is f32 has its rank in f32: 0.1f is to be a tenth, where it is a whole
// rank.
Tensor ranks_of(const Tensor& q, i64 n) {
  constexpr i64 kSixteenths = 1 << 20;
  const Tensor rank = mul(reshape(to_dtype(q, DType::f64), {-1}), double(n - 1));
  if (q.dtype() == DType::f64 || n > kSixteenths) return rank;
  return to_dtype(to_dtype(rank, DType::f32), DType::f64);
}

// q: 0-d or 1-d, of any float.
Tensor quantiles(CompositeScope& s, const Tensor& q, Dim axis, QuantileOptions options) {
  const Line l = line_of(s, axis);
  const DType t = l.x.dtype(), wide = item_size(t) == 2 ? DType::f32 : t;
  const Tensor sorted = to_dtype(transpose(sort(l.x, l.axis).values, 0, l.axis), wide);
  const Tensor rank = ranks_of(q, l.n), low = floor(detach(rank));
  Tensor y;
  switch (options.interpolation) {
    case Interpolation::lower:
      y = rows_at(sorted, low);
      break;
    case Interpolation::higher:
      y = rows_at(sorted, ceil(detach(rank)));
      break;
    case Interpolation::nearest:
      y = rows_at(sorted, round(detach(rank)));
      break;
    default: {
      Shape along(sorted.shape());
      for (int d = 0; d < along.ndim(); ++d) along[d] = 1;
      along[0] = rank.size(0);
      const Tensor high = rows_at(sorted, ceil(detach(rank)));
      if (options.interpolation == Interpolation::midpoint)
        y = lerp(rows_at(sorted, low), high, 0.5);
      else
        y = lerp(rows_at(sorted, low), high, reshape(to_dtype(sub(rank, low), wide), along));
    }
  }
  // A NaN is the last of its row.
  const Tensor last = slice(sorted, 0, {l.n - 1, l.n});
  y = where(isnan(detach(last)), last, std::move(y));
  // The quantiles come first, and what changed places with the axis goes back.
  y = transpose(unsqueeze(std::move(y), 1), 1, l.axis + 1);
  if (!options.keep_dim || s.geometry(0).ndim == 0) y = squeeze(std::move(y), l.axis + 1);
  if (q.ndim() == 0) y = squeeze(std::move(y), 0);
  return s.finish(to_dtype(std::move(y), t));
}

void check_searched(const CompositeScope& s, int list, int values) {
  detail::require_computing(s);
  if (s.dtype(list) != s.dtype(values))
    s.fail<DtypeError>(str("the list is ", dtype_name(s.dtype(list)), ", the values are ",
                           dtype_name(s.dtype(values))));
}

// list [.., n] and values [.., m] as they stand in one order: what comes of the list before each.
// Of equals those come first that must not be counted last: the list's with `right`.
Tensor places_in(const Tensor& list, const Tensor& values, bool right) {
  const i64 n = list.size(-1), m = values.size(-1);
  const Tensor both = right ? cat({list, values}, -1) : cat({values, list}, -1);
  const Tensor order = argsort(both, -1);
  const Tensor of_list = right ? lt(order, n) : ge(order, m);
  const Tensor before = cumsum(to_dtype(of_list, DType::i64), -1);
  const Tensor all = scatter(zeros_like(before), -1, order, before);
  return contiguous(slice(all, -1, right ? Slice{n, n + m} : Slice{0, m}));
}

}  // namespace

PlacedResult max_with_indices(const In& x, Dim axis, SumOptions options) {
  return extreme_place(info::max_with_indices, x, axis, options, false);
}
PlacedResult min_with_indices(const In& x, Dim axis, SumOptions options) {
  return extreme_place(info::min_with_indices, x, axis, options, true);
}

Tensor median(const In& x) {
  CompositeScope s(info::median, x);
  detail::require_computing(s);
  if (s.geometry(0).numel == 0) s.fail<ShapeError>("no element to choose from");
  const Line l{reshape(s.operand(0), {-1}), 0, s.geometry(0).numel};
  const Tensor place = middle_place(l, false);
  const bool differentiated = s.recording() && s.wants(0);
  if (!differentiated) return s.finish(squeeze(gather(l.x, 0, place), 0));
  // The largest of those that equal it: max shares the gradient.
  const Tensor value = gather(detach(l.x), 0, place), is_nan = isnan(value);
  const Tensor same = logical_or(eq(l.x, value), logical_and(isnan(detach(l.x)), is_nan));
  return s.finish(max(where(same, l.x, least_of(l.x.dtype()))));
}
PlacedResult median(const In& x, Dim axis, SumOptions options) {
  CompositeScope s(info::median, x);
  const Line l = line_of(s, axis);
  return picked(s, l, middle_place(l, false), options);
}
PlacedResult nanmedian(const In& x, Dim axis, SumOptions options) {
  CompositeScope s(info::nanmedian, x);
  const Line l = line_of(s, axis);
  return picked(s, l, middle_place(l, true), options);
}

PlacedResult kthvalue(const In& x, i64 k, Dim axis, SumOptions options) {
  CompositeScope s(info::kthvalue, x);
  const Line l = line_of(s, axis);
  if (k < 1 || k > l.n)
    s.fail<ShapeError>(str("k = ", k, " of ", l.n, " elements along axis ", l.axis));
  return picked(s, l, slice(argsort(l.x, l.axis), l.axis, {k - 1, k}), options);
}

Tensor quantile(const In& x, double q, Dim axis, QuantileOptions options) {
  CompositeScope s(info::quantile, x);
  detail::require_floating(s);
  if (!(q >= 0 && q <= 1)) s.fail<UsageError>(str("q must lie in [0, 1], got ", q));
  return quantiles(s, full({}, q, {.dtype = DType::f64, .device = s.device()}), axis, options);
}
Tensor quantile(const In& x, const In& q, Dim axis, QuantileOptions options) {
  CompositeScope s(info::quantile, x, q);
  detail::require_floating(s);
  if (s.dtype(1) != s.dtype(0))
    s.fail<DtypeError>(str("q is ", dtype_name(s.dtype(1)), ", x is ", dtype_name(s.dtype(0))));
  if (s.geometry(1).ndim > 1)
    s.fail<ShapeError>(str("q must be 0-d or 1-d, got shape ", shape_of(s.geometry(1))));
  return quantiles(s, s.operand(1), axis, options);
}

Tensor count_nonzero(const In& x, const Dims& dims) {
  CompositeScope s(info::count_nonzero, x);
  detail::require_computing(s);
  (void)s.axes(dims, s.geometry(0).ndim);
  return s.finish(sum(to_dtype(detach(s.operand(0)), DType::boolean), dims));
}

UniqueResult unique(const In& x) {
  CompositeScope s(info::unique, x);
  detail::require_computing(s);
  if (s.device().is_meta)
    s.fail<UsageError>("the shape depends on values, which a meta tensor has not");
  const NoGrad no_grad;
  const Shape shape = shape_of(s.geometry(0));
  const Tensor flat = reshape(detach(s.operand(0)), {-1});
  const i64 n = flat.numel();
  const TensorOptions o{.dtype = DType::i64, .device = s.device()};
  if (n == 0) return {s.finish(clone(flat)), empty(shape, o), empty({0}, o)};
  const auto [sorted, order] = sort(flat, 0);
  const Tensor begins = cat({ones({1}, {.dtype = DType::boolean, .device = s.device()}),
                             ne(slice(sorted, 0, {1, n}), slice(sorted, 0, {0, n - 1}))});
  const Tensor number = sub(cumsum(to_dtype(begins, DType::i64), 0), 1);
  const i64 found = slice(number, 0, {n - 1, n}).to_vector<i64>()[0] + 1;
  UniqueResult r;
  r.inverse = reshape(scatter(zeros_like(number), 0, order, number), shape);
  r.counts = scatter_add(zeros({found}, o), 0, number, ones({n}, o));
  r.values = s.finish(masked_select(sorted, begins));
  return r;
}

Tensor searchsorted(const In& sorted, const In& values, SearchsortedOptions options) {
  CompositeScope s(info::searchsorted, sorted, values);
  check_searched(s, 0, 1);
  const Shape list = shape_of(s.geometry(0)), shape = shape_of(s.geometry(1));
  if (list.ndim() == 0) s.fail<ShapeError>("the list must have at least one dimension");
  bool agree = list.ndim() == 1 || list.ndim() == shape.ndim();
  for (int d = 0; agree && d + 1 < list.ndim(); ++d) agree = list[d] == shape[d];
  if (!agree)
    s.fail<ShapeError>(
        str("lists ", list, " and values ", shape, " must have the same leading axes"));
  const NoGrad no_grad;
  Tensor of = detach(s.operand(1));
  if (list.ndim() == 1) of = reshape(std::move(of), {-1});
  return s.finish(reshape(places_in(detach(s.operand(0)), of, options.right), shape));
}
Tensor bucketize(const In& x, const In& boundaries, SearchsortedOptions options) {
  CompositeScope s(info::bucketize, x, boundaries);
  check_searched(s, 1, 0);
  if (s.geometry(1).ndim != 1)
    s.fail<ShapeError>(str("boundaries must be 1-d, got shape ", shape_of(s.geometry(1))));
  const NoGrad no_grad;
  const Tensor of = reshape(detach(s.operand(0)), {-1});
  return s.finish(
      reshape(places_in(detach(s.operand(1)), of, options.right), shape_of(s.geometry(0))));
}

namespace detail {
OpInfos order_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::max_with_indices, &info::min_with_indices, &info::median,        &info::nanmedian,
      &info::kthvalue,         &info::quantile,         &info::count_nonzero, &info::unique,
      &info::searchsorted,     &info::bucketize};
  return kOps;
}
}  // namespace detail

}  // namespace wt
