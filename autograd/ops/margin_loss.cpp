// Losses that want a margin. All are made of other operators.
#include "warptape/autograd/ops/margin_loss.h"

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/class_labels.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/loss_ends.h"

namespace wt {
namespace info {
constexpr OpInfo margin_ranking_loss{
    .name = "margin_ranking_loss", .autocast = Autocast::promote, .composite = true};
constexpr OpInfo hinge_embedding_loss{.name = "hinge_embedding_loss",
                                      .autocast = Autocast::promote,
                                      .derivative = Derivative::piecewise,
                                      .composite = true};
constexpr OpInfo soft_margin_loss{
    .name = "soft_margin_loss", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo multi_margin_loss{.name = "multi_margin_loss", .composite = true};
}  // namespace info

namespace {

Tensor ranking_losses(const CompositeScope& s, const MarginRankingOptions& o) {
  detail::require_floating(s, 0);
  require_one_shape(s, "a", "b", 0, 1);
  require_one_shape(s, "a", "target", 0, 2);
  const Tensor apart = mul(sub(widened(s, 1), widened(s, 0)), widened(s, 2));
  return at_least(add(apart, o.margin), 0);
}

Tensor hinge_losses(const CompositeScope& s, const HingeEmbeddingOptions& o) {
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  const Tensor x = widened(s, 0), t = s.operand(1);
  return add(where_or_zero(ne(t, -1), x), where_or_zero(ne(t, 1), at_least(sub(o.margin, x), 0)));
}

Tensor soft_losses(const CompositeScope& s) {
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  // Beyond 40 even an f64 is the same without the logarithm.
  return softplus(neg(mul(widened(s, 1), widened(s, 0))), 1, 40);
}

Tensor multi_margin_losses(const CompositeScope& s, const MultiMarginOptions& o) {
  const Geometry& x = s.geometry(0);
  if (x.ndim > 2) s.fail<ShapeError>(str("input must be [N, C] or [C], got ", shape_of(x)));
  const int axis = class_axis(x);
  check_labels(s, axis, "input");
  if (o.p != 1 && o.p != 2) s.fail<UsageError>(str("p must be 1 or 2, got ", o.p));
  const Tensor weights = class_weights(s, o.weight, axis), labels = s.operand(1);
  const Tensor y = widened(s, 0), own = gather(y, axis, unsqueeze(labels, axis));
  const i64 classes = y.size(axis);
  const Tensor hinge = at_least(add(sub(y, own), o.margin), 0);
  const Tensor others = where(hits(labels, classes, axis), 0.0, o.p == 2 ? square(hinge) : hinge);
  const Tensor losses = div(sum(others, axis), double(classes));
  if (!weights.defined()) return losses;
  return weighted_or_zero(reshape(gather(weights, 0, flatten(labels)), labels.shape()), losses);
}

}  // namespace

Loss margin_ranking_loss(const In& a, const In& b, const In& target,
                         const MarginRankingOptions& options) {
  CompositeScope s(info::margin_ranking_loss, a, b, target, Types::promote);
  return finish_loss(s, ranking_losses(s, options));
}
Tensor margin_ranking_loss(const In& a, const In& b, const In& target, Unreduced,
                           const MarginRankingOptions& options) {
  CompositeScope s(info::margin_ranking_loss, a, b, target, Types::promote);
  return s.finish(ranking_losses(s, options));
}

Loss hinge_embedding_loss(const In& input, const In& target, const HingeEmbeddingOptions& options) {
  CompositeScope s(info::hinge_embedding_loss, input, target, Types::any);
  return finish_loss(s, hinge_losses(s, options));
}
Tensor hinge_embedding_loss(const In& input, const In& target, Unreduced,
                            const HingeEmbeddingOptions& options) {
  CompositeScope s(info::hinge_embedding_loss, input, target, Types::any);
  return s.finish(hinge_losses(s, options));
}

Loss soft_margin_loss(const In& input, const In& target) {
  CompositeScope s(info::soft_margin_loss, input, target, Types::promote);
  return finish_loss(s, soft_losses(s));
}
Tensor soft_margin_loss(const In& input, const In& target, Unreduced) {
  CompositeScope s(info::soft_margin_loss, input, target, Types::promote);
  return s.finish(soft_losses(s));
}

Loss multi_margin_loss(const In& input, const In& labels, const MultiMarginOptions& options) {
  CompositeScope s(info::multi_margin_loss, input, labels, Types::any);
  return finish_loss(s, multi_margin_losses(s, options));
}
Tensor multi_margin_loss(const In& input, const In& labels, Unreduced,
                         const MultiMarginOptions& options) {
  CompositeScope s(info::multi_margin_loss, input, labels, Types::any);
  return s.finish(multi_margin_losses(s, options));
}

namespace detail {
OpInfos margin_loss_ops() {
  static constexpr const OpInfo* kOps[] = {&info::margin_ranking_loss, &info::hinge_embedding_loss,
                                           &info::soft_margin_loss, &info::multi_margin_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
