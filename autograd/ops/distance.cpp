// Lengths of and distances between vectors, and the losses that compare them. All are made of other
// operators.
#include "warptape/autograd/ops/distance.h"

#include <cmath>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/loss_ends.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/stats.h"

namespace wt {
namespace info {
constexpr OpInfo cosine_similarity{
    .name = "cosine_similarity", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo pairwise_distance{
    .name = "pairwise_distance", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo normalize{.name = "normalize", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo cosine_embedding_loss{
    .name = "cosine_embedding_loss", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo triplet_margin_loss{
    .name = "triplet_margin_loss", .autocast = Autocast::f32, .composite = true};
}  // namespace info

namespace {

// The power sum's root of norms that may be 0, where a root has no derivative: 0 there.
template <class Root>
Tensor root_or_zero(const Tensor& sums, const Root& root) {
  const Tensor none = eq(sums, 0.0);
  return where(none, 0.0, root(where(none, 1.0, sums)));
}

// The p-norm along an axis.
Tensor norm_of(const Tensor& d, double p, int axis, bool keep_dim) {
  const SumOptions keep{.keep_dim = keep_dim};
  if (p == 2) return norm(d, 2, axis, keep);  // no square overflows
  const Tensor size = abs(d);
  if (p == 1) return sum(size, axis, keep);
  if (std::isinf(p)) return max(size, axis, keep);
  if (p == 0) return sum(to_dtype(ne(size, 0.0), d.dtype()), axis, keep);
  // |d|^p has no derivative at 0 for p < 1.
  const Tensor none = eq(size, 0.0);
  const Tensor powers = where(none, 0.0, pow(where(none, 1.0, size), p));
  return root_or_zero(sum(powers, axis, keep), [p](const Tensor& t) { return pow(t, 1 / p); });
}
Tensor distance(const Tensor& a, const Tensor& b, double p, double eps, bool keep_dim = false) {
  return norm_of(add(sub(a, b), eps), p, -1, keep_dim);
}

void check_norm(const OpScope& s, double p, double eps) {
  if (!(p >= 0)) s.fail<UsageError>(str("p must be at least 0, got ", p));
  if (!std::isfinite(eps)) s.fail<UsageError>(str("eps must be finite, got ", eps));
}
void check_margin_shapes(const OpScope& s) {
  const Geometry &x = s.geometry(0), &y = s.geometry(2);
  if (x.ndim != 1 && x.ndim != 2)
    s.fail<ShapeError>(str("a must be [N, D] or [D], got ", shape_of(x)));
  const Shape pairs(x.shape, x.ndim - 1);
  if (shape_of(y) != pairs)
    s.fail<ShapeError>(str("target must have the shape of a without the last axis: expected ",
                           pairs, ", got ", shape_of(y)));
}

}  // namespace

Tensor cosine_similarity(const In& a, const In& b, const CosineSimilarityOptions& options) {
  CompositeScope s(info::cosine_similarity, a, b, Types::promote);
  detail::require_floating(s, 0);
  if (!(options.eps >= 0)) s.fail<UsageError>(str("eps must be at least 0, got ", options.eps));
  const Shape shape = broadcast_operands(s, shape_of(s.geometry(0)), shape_of(s.geometry(1)));
  const int axis = s.axis(options.dim, shape.ndim());
  const Tensor x = expand(widened(s, 0), shape), y = expand(widened(s, 1), shape);
  const auto unit = [&](const Tensor& t) {
    return div(t, at_least(norm_of(t, 2, axis, true), options.eps));
  };
  return s.finish(to_dtype(sum(mul(unit(x), unit(y)), axis), s.dtype()));
}

Tensor pairwise_distance(const In& a, const In& b, const PairwiseDistanceOptions& options) {
  CompositeScope s(info::pairwise_distance, a, b, Types::promote);
  detail::require_floating(s, 0);
  check_norm(s, options.p, options.eps);
  const Shape shape = broadcast_operands(s, shape_of(s.geometry(0)), shape_of(s.geometry(1)));
  if (shape.empty()) s.fail<ShapeError>("needs at least one axis, got 0 dimensions");
  const Tensor d = distance(widened(s, 0), widened(s, 1), options.p, options.eps, options.keep_dim);
  return s.finish(to_dtype(d, s.dtype()));
}

Tensor normalize(const In& x, const NormalizeOptions& options) {
  CompositeScope s(info::normalize, x);
  detail::require_floating(s);
  if (s.geometry(0).ndim == 0) s.fail<ShapeError>("needs at least one axis, got 0 dimensions");
  const int axis = s.axis(options.dim, s.geometry(0).ndim);
  check_norm(s, options.p, options.eps);
  if (options.eps < 0) s.fail<UsageError>(str("eps must be at least 0, got ", options.eps));
  // The largest of nothing has no value: no vector has an element.
  if (s.geometry(0).numel == 0) return s.finish(clone(s.operand(0)));
  const Tensor t = widened(s, 0);
  const Tensor length = at_least(norm_of(t, options.p, axis, true), options.eps);
  return s.finish(to_dtype(div(t, length), s.dtype()));
}

static Tensor cosine_embedding_losses(const CompositeScope& s,
                                      const CosineEmbeddingOptions& options) {
  detail::require_floating(s, 0);
  detail::require_floating(s, 1);
  require_one_shape(s, "a", "b");
  check_margin_shapes(s);
  constexpr double kLeastSquare = 1e-12;  // PyTorch's
  const DType wide = loss_dtype(promote(s.dtype(0), s.dtype(1)));
  const Tensor x = to_dtype(s.operand(0), wide), y = to_dtype(s.operand(1), wide);
  const Tensor truth = s.operand(2);
  const auto squares = [&](const Tensor& t) { return add(sum(square(t), -1), kLeastSquare); };
  const Tensor cosine = mul(sum(mul(x, y), -1), rsqrt(mul(squares(x), squares(y))));
  const Tensor apart = where_or_zero(eq(truth, -1), at_least(sub(cosine, options.margin), 0));
  return where(eq(truth, 1), complement(cosine), apart);
}

Loss cosine_embedding_loss(const In& a, const In& b, const In& target,
                           const CosineEmbeddingOptions& options) {
  CompositeScope s(info::cosine_embedding_loss, a, b, target, Types::any);
  return finish_loss(s, cosine_embedding_losses(s, options));
}
Tensor cosine_embedding_loss(const In& a, const In& b, const In& target, Unreduced,
                             const CosineEmbeddingOptions& options) {
  CompositeScope s(info::cosine_embedding_loss, a, b, target, Types::any);
  return s.finish(cosine_embedding_losses(s, options));
}

static Tensor triplet_margin_losses(const CompositeScope& s, const TripletMarginOptions& options) {
  detail::require_floating(s, 0);
  require_one_shape(s, "anchor", "positive", 0, 1);
  require_one_shape(s, "anchor", "negative", 0, 2);
  if (s.geometry(0).ndim == 0) s.fail<ShapeError>("needs at least one axis, got 0 dimensions");
  check_norm(s, options.p, options.eps);
  if (!(options.margin > 0))
    s.fail<UsageError>(str("margin must be greater than 0, got ", options.margin));
  const Tensor a = widened(s, 0), p = widened(s, 1), n = widened(s, 2);
  const auto between = [&](const Tensor& u, const Tensor& v) {
    return distance(u, v, options.p, options.eps);
  };
  Tensor apart = between(a, n);
  if (options.swap) apart = minimum(apart, between(p, n));
  return at_least(add(sub(between(a, p), apart), options.margin), 0);
}

Loss triplet_margin_loss(const In& anchor, const In& positive, const In& negative,
                         const TripletMarginOptions& options) {
  CompositeScope s(info::triplet_margin_loss, anchor, positive, negative, Types::promote);
  return finish_loss(s, triplet_margin_losses(s, options));
}
Tensor triplet_margin_loss(const In& anchor, const In& positive, const In& negative, Unreduced,
                           const TripletMarginOptions& options) {
  CompositeScope s(info::triplet_margin_loss, anchor, positive, negative, Types::promote);
  return s.finish(triplet_margin_losses(s, options));
}

namespace detail {
OpInfos distance_ops() {
  static constexpr const OpInfo* kOps[] = {&info::cosine_similarity, &info::pairwise_distance,
                                           &info::normalize, &info::cosine_embedding_loss,
                                           &info::triplet_margin_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
