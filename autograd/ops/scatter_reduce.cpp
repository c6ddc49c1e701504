// Reductions by index. Sums are scatter_add's. The others take the index in order, so that what
// goes to one place stands side by side, and combine neighbours at distances 1, 2, 4, ...: the last
// of a run then has the whole, and is the one that scatter keeps.
#include "warptape/autograd/ops/scatter_reduce.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/factories.h"

namespace wt {
namespace info {
constexpr OpInfo scatter_reduce{.name = "scatter_reduce", .composite = true};
}

namespace {

Tensor widened_halves(const Tensor& t) {
  return is_floating(t.dtype()) && item_size(t.dtype()) == 2 ? to_dtype(t, DType::f32) : t;
}
Tensor numbers_like(const Tensor& t, double value) {
  const Scalar v = is_floating(t.dtype()) ? Scalar(value) : Scalar(i64(value));
  return expand(full({}, v, {.dtype = t.dtype(), .device = t.device()}), t.shape());
}

// The operands, wide, the source no larger than the index, all with an axis.
struct Scattered {
  Tensor x, index, source;
  int axis;
  bool include_self;

  // How many of the source went to each place.
  Tensor counts() const {
    return scatter_add(numbers_like(x, 0), axis, index, numbers_like(source, 1));
  }
};

Tensor combine(const Tensor& a, const Tensor& b, ScatterReduction r) {
  return r == ScatterReduction::prod   ? mul(a, b)
         : r == ScatterReduction::amax ? maximum(a, b)
                                       : minimum(a, b);
}

// x with the source alone at the places that an index names.
Tensor replaced(const Scattered& s, const Tensor& x, ScatterReduction r) {
  const int a = s.axis;
  const i64 n = s.index.size(a);
  {
    // A bad index is told by its place before anything is put in order.
    const NoGrad no_grad;
    (void)gather(detach(s.x), a, s.index);
  }
  const Tensor order = argsort(s.index, a), index = gather(s.index, a, order);
  Tensor run = gather(s.source, a, order);
  for (i64 step = 1; step < n; step *= 2) {
    const Slice here{step, n}, before{0, n - step};
    const Tensor own = slice(run, a, here), other = slice(run, a, before);
    const Tensor same = eq(slice(index, a, here), slice(index, a, before));
    run = cat({slice(run, a, {0, step}), where(same, combine(own, other, r), own)}, a);
  }
  return scatter(x, a, index, run);
}

Tensor summed(const Scattered& s, bool mean) {
  Tensor x = s.x;
  if (!s.include_self) x = scatter(x, s.axis, s.index, numbers_like(s.source, 0));
  const Tensor y = scatter_add(x, s.axis, s.index, s.source);
  if (!mean) return y;
  const Tensor n = s.counts();
  return div(y, s.include_self ? add(n, 1.0) : maximum(n, 1.0));
}

Tensor multiplied(const Scattered& s) {
  if (!s.include_self) return replaced(s, s.x, ScatterReduction::prod);
  return mul(s.x, replaced(s, numbers_like(s.x, 1), ScatterReduction::prod));
}

// t where it takes part in the extreme, shared: of the value of t that is t's own, of the
// gradient 1 / shares. The difference is 0 (of infinities it would be NaN).
Tensor part_of(const Tensor& t, const Tensor& takes_part, const Tensor& shares) {
  const Tensor zero = sub(t, detach(t));
  return div(where(logical_and(takes_part, isfinite(detach(t))), zero, 0.0), shares);
}

Tensor extreme_at(const Scattered& s, ScatterReduction r) {
  Tensor y, own, sources, shares;
  {
    const NoGrad no_grad;
    const Tensor x = detach(s.x),
                 from = replaced({x, s.index, detach(s.source), s.axis, true}, x, r);
    y = s.include_self ? combine(x, from, r) : from;
    if (!is_floating(x.dtype()) || !(s.x.requires_grad() || s.source.requires_grad())) return y;
    own = eq(x, y);
    if (!s.include_self) own = logical_and(own, eq(s.counts(), 0.0));
    sources = eq(detach(s.source), gather(y, s.axis, s.index));
    shares = maximum(
        scatter_add(to_dtype(own, x.dtype()), s.axis, s.index, to_dtype(sources, x.dtype())), 1.0);
  }
  const Tensor from_source = part_of(s.source, sources, gather(shares, s.axis, s.index));
  return add(y, scatter_add(part_of(s.x, own, shares), s.axis, s.index, from_source));
}

// The part of the source that the index reaches.
Tensor reached_part(Tensor source, const Geometry& index) {
  for (int d = 0; d < index.ndim; ++d)
    if (source.size(d) != index.shape[d]) source = slice(std::move(source), d, {0, index.shape[d]});
  return source;
}

int check(const CompositeScope& s, i64 axis, ScatterReduction r) {
  const Geometry &x = s.geometry(0), &index = s.geometry(1), &source = s.geometry(2);
  const DType t = s.dtype(0), of_index = s.dtype(1);
  if (!computes(t) || t == DType::boolean)
    s.fail<DtypeError>(str("reduces floats and integers, got ", dtype_name(t)));
  if (r == ScatterReduction::mean && !is_floating(t))
    s.fail<DtypeError>(str("the mean of ", dtype_name(t), " has no dtype of its own"),
                       ".to(f32) first");
  if (of_index != DType::i64 && of_index != DType::i32)
    s.fail<DtypeError>(str("indices must be i64 or i32, got ", dtype_name(of_index)),
                       ".to(DType::i64)");
  if (s.dtype(2) != t)
    s.fail<DtypeError>(
        str("the source is ", dtype_name(s.dtype(2)), ", the tensor ", dtype_name(t)));
  const int a = s.axis(axis, x.ndim);
  if (index.ndim != x.ndim)
    s.fail<ShapeError>(
        str("the index has ", int(index.ndim), " dimensions, the tensor ", int(x.ndim)));
  if (source.ndim != x.ndim)
    s.fail<ShapeError>(
        str("the source has ", int(source.ndim), " dimensions, the tensor ", int(x.ndim)));
  for (int d = 0; d < x.ndim; ++d) {
    if (d != a && index.shape[d] > x.shape[d])
      s.fail<ShapeError>(str("the index has size ", index.shape[d], " along axis ", d,
                             ", the tensor ", x.shape[d]));
    if (index.shape[d] > source.shape[d])
      s.fail<ShapeError>(str("the index has size ", index.shape[d], " along axis ", d,
                             ", the source ", source.shape[d]));
  }
  return a;
}

}  // namespace

Tensor scatter_reduce(const In& x, i64 axis, const In& index, const In& source,
                      ScatterReduction reduce, ScatterReduceOptions options) {
  CompositeScope s(info::scatter_reduce, x, index, source);
  const int a = check(s, axis, reduce);
  const bool scalar = s.geometry(0).ndim == 0;
  const auto lined = [&](Tensor t) { return scalar ? unsqueeze(std::move(t), 0) : t; };
  const Scattered in{widened_halves(lined(s.operand(0))), lined(s.operand(1)),
                     widened_halves(lined(reached_part(s.operand(2), s.geometry(1)))), a,
                     options.include_self};
  Tensor y;
  switch (reduce) {
    case ScatterReduction::sum:
    case ScatterReduction::mean:
      y = summed(in, reduce == ScatterReduction::mean);
      break;
    case ScatterReduction::prod:
      y = multiplied(in);
      break;
    default:
      y = extreme_at(in, reduce);
  }
  if (scalar) y = squeeze(std::move(y), 0);
  return s.finish(to_dtype(std::move(y), s.dtype(0)));
}

namespace detail {
OpInfos scatter_reduce_ops() {
  static constexpr const OpInfo* kOps[] = {&info::scatter_reduce};
  return kOps;
}
}  // namespace detail

}  // namespace wt
