// Losses. Each is one fused operator that returns a sum and a weight; under create_graph its
// backward is a composite of operators that have derivatives themselves. Cross-entropy with class
// weights or probabilities is a composite of log_softmax.
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/bad_index.h"
#include "warptape/autograd/ops/internal/class_labels.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/loss_ends.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/mse.h"
#include "warptape/kernels/nll.h"

namespace wt {
namespace info {
// Reads 16-bit logits as they are and computes in f32: converting them would double the traffic.
constexpr OpInfo cross_entropy{.name = "cross_entropy"};
constexpr OpInfo nll_loss{.name = "nll_loss", .derivative = Derivative::linear};
constexpr OpInfo mse_loss{.name = "mse_loss", .autocast = Autocast::promote};
}  // namespace info

namespace {

// --- negative log-likelihood ---

struct NllAttributes {
  i64 ignore_index;
  int axis;
  DType dtype;  // of the log-probabilities
};
enum : int { kLabels, kClassWeights };  // slots

// The same gradient as the kernel's, from operators that record.
Tensor nll_gradient(Backward& g, const NllAttributes& a) {
  const Tensor& labels = g.saved(kLabels);
  const Shape shape = g.input_shape(0);
  const Tensor counts = ne(labels, a.ignore_index).unsqueeze(a.axis);
  Tensor gx = neg(g.grad());
  if (g.has_saved(kClassWeights))
    gx = mul(gx, along_axis(g.saved(kClassWeights), a.axis, shape.ndim()));
  return to_dtype(where_or_zero(logical_and(hits(labels, shape[a.axis], a.axis), counts), gx),
                  a.dtype);
}

void nll_backward(Backward& g) {
  if (!g.wants(0)) return;
  const auto a = g.attribute<NllAttributes>();
  if (g.recording()) return g.put(0, nll_gradient(g, a));
  const Tensor& labels = g.saved(kLabels);
  Tensor gx = empty(g.input_shape(0), {.dtype = a.dtype, .device = labels.device()});
  const View weights = g.has_saved(kClassWeights) ? view_of(g.saved(kClassWeights).impl()) : View{};
  run(NllBackwardArgs{view_of(gx.impl()), view_of(g.grad().impl()), view_of(labels.impl()), weights,
                      a.axis, a.ignore_index},
      g.launch());
  g.put(0, std::move(gx));
}

// Operands: log-probabilities and labels, which were checked. `weights`: class_weights().
Loss nll(OpScope& s, u32 mailbox_id, int axis, i64 ignore_index, const Tensor& weights) {
  const DType t = loss_dtype(s.dtype());
  s.save_input(1);
  if (weights.defined())
    s.save_extra(Tensor(alias_of(weights.impl())));
  else
    s.save_input_if(false, 0);
  Tensor weight(new_contiguous(nullptr, 0, t, s.device()));
  Result sum = s.result(nullptr, 0, t);
  s.record(nll_backward);
  s.set_attribute(NllAttributes{ignore_index, axis, s.dtype()});
  BadIndexReport bad(s, mailbox_id);
  run(NllForwardArgs{sum.view(), view_of(weight.impl()), s.view(0), s.view(1),
                     weights.defined() ? view_of(weights.impl()) : View{}, axis, ignore_index,
                     bad.record(), bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "label", "sample", 1);
  return Loss(s.finish(std::move(sum)), std::move(weight));
}

// --- cross-entropy ---

struct CrossEntropyAttributes {
  i64 ignore_index;
  double smoothing;
  int axis;
};

void check_smoothing(const OpScope& s, double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1))
    s.fail<UsageError>(str("label_smoothing must be in [0, 1], got ", smoothing));
}

// 1 at the label, with smoothing. `like` has the shape and dtype of the logits.
Tensor smoothed_target(const Tensor& labels, const Tensor& like, const CrossEntropyAttributes& a) {
  const i64 classes = like.size(a.axis);
  const Tensor hit = to_dtype(hits(labels, classes, a.axis), like.dtype());
  return add(mul(hit, 1 - a.smoothing), a.smoothing / double(classes));
}

// The same gradient as the kernel's, from operators that record.
Tensor cross_entropy_gradient(const Tensor& gsum, const Tensor& logits, const Tensor& labels,
                              const CrossEntropyAttributes& a) {
  const Tensor x = to_dtype(logits, loss_dtype(logits.dtype()));
  const Tensor valid = ne(labels.unsqueeze(a.axis), a.ignore_index);
  const Tensor p = softmax(where_or_zero(valid, x), a.axis);
  const Tensor gx = mul(gsum, where_or_zero(valid, sub(p, smoothed_target(labels, x, a))));
  return to_dtype(gx, logits.dtype());
}

// No element of it is stored twice (expand).
bool writable(const Tensor& t) {
  const Geometry& g = t.impl()->geometry;
  for (int d = 0; d < g.ndim; ++d)
    if (g.shape[d] > 1 && g.strides[d] == 0) return false;
  return true;
}

void cross_entropy_backward(Backward& g) {
  if (!g.wants(0)) return;
  const auto a = g.attribute<CrossEntropyAttributes>();
  const Tensor &logits = g.saved(0), &labels = g.saved(1);
  if (g.recording()) return g.put(0, cross_entropy_gradient(g.grad(), logits, labels, a));
  const bool over = g.may_overwrite_saved(0) && writable(logits);
  Tensor gx = over ? logits : empty_like(logits);
  run(CrossEntropyBackwardArgs{view_of(gx.impl()), view_of(g.grad().impl()),
                               view_of(g.saved(2).impl()), view_of(logits.impl()),
                               view_of(labels.impl()), a.axis, a.ignore_index, a.smoothing},
      g.launch());
  if (over) gx.impl()->cell->wrote(0);
  g.put(0, std::move(gx));
}

// --- squared error ---

void mse_backward(Backward& g) {
  const Tensor &a = g.saved(0), &b = g.saved(1);
  if (g.recording()) {
    const Tensor gsum = to_dtype(g.grad(), a.dtype());
    const Tensor ga = mul(sub(a, b), mul(gsum, 2.0));
    if (g.wants(0)) g.put(0, ga);
    if (g.wants(1)) g.put(1, neg(ga));
    return;
  }
  for (u32 i = 0; i < 2; ++i) {
    if (!g.wants(i)) continue;
    Tensor out = empty_like(a);
    run(MseBackwardArgs{view_of(out.impl()), view_of(g.grad().impl()), view_of(a.impl()),
                        view_of(b.impl()), i == 0 ? 2.0 : -2.0},
        g.launch());
    g.put(i, std::move(out));
  }
}

// --- cross-entropy by way of log_softmax ---

u32 cross_entropy_id() {
  static const u32 id = mailbox_op_id(info::cross_entropy);
  return id;
}

// Which labels count: not those that are ignored, nor (`weights`) those of a class without weight.
Tensor counting_labels(const Tensor& labels, i64 ignore_index, const Tensor& weights) {
  const Tensor counts = ne(labels, ignore_index);
  if (!weights.defined()) return counts;
  // A label that is none is told where it picks.
  const Tensor safe = flatten(clamp(where(counts, labels, 0), 0, weights.numel() - 1));
  return logical_and(counts, ne(reshape(gather(weights, 0, safe), labels.shape()), 0.0));
}
// The logits in the dtype of the loss, 0 in rows that do not count: log_softmax would spread a NaN
// that stands there into the gradient. With smoothing a row counts whatever its label's weight.
Tensor read_logits(const CompositeScope& s, int axis, const CrossEntropyOptions& o,
                   const Tensor& weights) {
  const Tensor counts =
      counting_labels(s.operand(1), o.ignore_index, o.label_smoothing > 0 ? Tensor() : weights);
  return where_or_zero(unsqueeze(counts, axis), widened(s, 0));
}

// With class weights: nll_loss of log_softmax, and with smoothing e / C times the weighted sum over
// all classes.
Loss weighted_cross_entropy(const In& logits, const In& labels, const CrossEntropyOptions& o) {
  CompositeScope s(info::cross_entropy, logits, labels, Types::any);
  const int axis = class_axis(s.geometry(0));
  check_labels(s, axis, "logits");
  check_smoothing(s, o.label_smoothing);
  const Tensor weights = class_weights(s, o.weight, axis), truth = s.operand(1);
  const Tensor y = log_softmax(read_logits(s, axis, o, weights), axis);
  const In y_in(y), truth_in(truth);
  OpScope picked(info::cross_entropy, y_in, truth_in, Types::any);
  Loss loss = nll(picked, cross_entropy_id(), axis, o.ignore_index, weights);
  if (o.label_smoothing > 0) {
    const Tensor all = neg(sum(weighted_or_zero(along_axis(weights, axis, y.ndim()), y), axis));
    const Tensor rest = sum(where_or_zero(ne(truth, o.ignore_index), all));
    loss.sum = add(mul(loss.sum, 1 - o.label_smoothing),
                   mul(rest, o.label_smoothing / double(y.size(axis))));
  }
  loss.sum = s.finish(std::move(loss.sum));
  return loss;
}

// A floating target of the logits' shape holds probabilities.
bool is_probabilities(const In& logits, const In& target) {
  const TensorImpl *x = logits.impl(), *t = target.impl();
  return x && t && is_floating(dtype_of(t)) && same_shape(x->geometry, t->geometry);
}

// Of each sample, for probabilities.
Tensor probability_losses(CompositeScope& s, const CrossEntropyOptions& o) {
  detail::require_floating(s, 0);
  detail::require_floating(s, 1);
  const Geometry& x = s.geometry(0);
  if (x.ndim == 0)
    s.fail<ShapeError>("logits must be [N, C], [N, C, ...] or [C], got 0 dimensions");
  check_smoothing(s, o.label_smoothing);
  if (o.ignore_index >= 0)
    s.fail<UsageError>(
        str("ignore_index ", o.ignore_index, " picks labels, and the target holds probabilities"));
  const int axis = class_axis(x);
  const Tensor weights = class_weights(s, o.weight, axis);
  const i64 classes = x.shape[axis];
  Tensor t = widened(s, 1);
  if (o.label_smoothing > 0)
    t = add(mul(t, 1 - o.label_smoothing), o.label_smoothing / double(classes));
  if (weights.defined()) t = mul(t, along_axis(weights, axis, x.ndim));
  // A sample without any weight is not read: log_softmax would spread its NaN.
  // Where the target has a gradient, which is the logarithm, one that can be is.
  const Tensor logits = widened(s, 0);
  Tensor counts = any(t.detach(), {axis}, {.keep_dim = true});
  if (mode.grad && t.requires_grad() && classes > 0)
    counts = logical_or(counts, isfinite(max(logits.detach(), {axis}, {.keep_dim = true})));
  const Tensor y = log_softmax(where_or_zero(counts, logits), axis);
  return neg(sum(weighted_or_zero(t, y), axis));
}

Loss probability_cross_entropy(const In& logits, const In& target, const CrossEntropyOptions& o) {
  CompositeScope s(info::cross_entropy, logits, target, Types::any);
  return finish_loss(s, probability_losses(s, o));
}

// --- losses one by one ---

// -w y[label] of log-probabilities y; 0 where the label is ignored. Operand 1: the labels.
Tensor picked_losses(const CompositeScope& s, const Tensor& y, int axis, i64 ignore_index,
                     const Tensor& weights) {
  const Tensor labels = s.operand(1), counts = counting_labels(labels, ignore_index, weights);
  const Tensor safe = where(ne(labels, ignore_index), labels, 0);
  Tensor losses = neg(squeeze(gather(y, axis, unsqueeze(safe, axis)), axis));
  if (weights.defined())
    losses = mul(losses, reshape(gather(weights, 0, flatten(safe)), labels.shape()));
  return where_or_zero(counts, losses);
}

Tensor label_losses(CompositeScope& s, const CrossEntropyOptions& o) {
  const int axis = class_axis(s.geometry(0));
  check_labels(s, axis, "logits");
  check_smoothing(s, o.label_smoothing);
  const Tensor weights = class_weights(s, o.weight, axis);
  const Tensor y = log_softmax(read_logits(s, axis, o, weights), axis);
  const Tensor picked = picked_losses(s, y, axis, o.ignore_index, weights);
  if (o.label_smoothing == 0) return picked;
  const Tensor each =
      weights.defined() ? weighted_or_zero(along_axis(weights, axis, y.ndim()), y) : y;
  const Tensor all = where_or_zero(ne(s.operand(1), o.ignore_index), neg(sum(each, axis)));
  return add(mul(picked, 1 - o.label_smoothing),
             mul(all, o.label_smoothing / double(y.size(axis))));
}

}  // namespace

Loss cross_entropy(const In& logits, const In& labels, const CrossEntropyOptions& options) {
  if (is_probabilities(logits, labels)) return probability_cross_entropy(logits, labels, options);
  if (options.weight.defined()) return weighted_cross_entropy(logits, labels, options);
  OpScope s(info::cross_entropy, logits, labels, Types::any);
  const Geometry& x = s.geometry(0);
  const int axis = class_axis(x);
  check_labels(s, axis, "logits");
  check_smoothing(s, options.label_smoothing);
  const DType t = loss_dtype(x.dtype);
  const i64 stats_shape[2] = {2, s.geometry(1).numel};
  s.save_input(0);
  s.save_input(1);
  Tensor stats(new_contiguous(stats_shape, 2, t, s.device()));
  const View stats_view = view_of(stats.impl());
  s.save_extra(std::move(stats));
  Tensor weight(new_contiguous(nullptr, 0, t, s.device()));
  Result sum = s.result(nullptr, 0, t);
  s.record(cross_entropy_backward);
  s.set_attribute(CrossEntropyAttributes{options.ignore_index, options.label_smoothing, axis});
  BadIndexReport bad(s, cross_entropy_id());
  run(CrossEntropyForwardArgs{sum.view(), view_of(weight.impl()), stats_view, s.view(0), s.view(1),
                              axis, options.ignore_index, options.label_smoothing, bad.record(),
                              bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "label", "sample", 1);
  return Loss(s.finish(std::move(sum)), std::move(weight));
}

Tensor cross_entropy(const In& logits, const In& labels, Unreduced,
                     const CrossEntropyOptions& options) {
  const bool probabilities = is_probabilities(logits, labels);
  CompositeScope s(info::cross_entropy, logits, labels, Types::any);
  return s.finish(probabilities ? probability_losses(s, options) : label_losses(s, options));
}

Loss nll_loss(const In& log_probs, const In& labels, const NllOptions& options) {
  OpScope s(info::nll_loss, log_probs, labels, Types::any);
  const int axis = class_axis(s.geometry(0));
  check_labels(s, axis, "log_probs");
  static const u32 id = mailbox_op_id(info::nll_loss);
  return nll(s, id, axis, options.ignore_index, class_weights(s, options.weight, axis));
}

Tensor nll_loss(const In& log_probs, const In& labels, Unreduced, const NllOptions& options) {
  CompositeScope s(info::nll_loss, log_probs, labels, Types::any);
  const int axis = class_axis(s.geometry(0));
  check_labels(s, axis, "log_probs");
  return s.finish(picked_losses(s, widened(s, 0), axis, options.ignore_index,
                                class_weights(s, options.weight, axis)));
}

Loss mse_loss(const In& input, const In& target) {
  OpScope s(info::mse_loss, input, target, Types::promote);
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  const DType t = loss_dtype(s.dtype());
  s.save_input(0);
  s.save_input(1);
  Tensor weight(new_contiguous(nullptr, 0, t, s.device()));
  Result sum = s.result(nullptr, 0, t);
  s.record(mse_backward);
  run(MseForwardArgs{sum.view(), view_of(weight.impl()), s.view(0), s.view(1)}, s.launch());
  return Loss(s.finish(std::move(sum)), std::move(weight));
}

Tensor mse_loss(const In& input, const In& target, Unreduced) {
  CompositeScope s(info::mse_loss, input, target, Types::promote);
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  return s.finish(square(sub(widened(s, 0), widened(s, 1))));
}

// --- Loss ---

Loss::Loss(Tensor sum_of_losses, Scalar its_weight)
    : sum(std::move(sum_of_losses)),
      weight(full({}, its_weight, {.dtype = sum.dtype(), .device = sum.device()})) {}

Tensor Loss::mean(Frame at) const {
  const FrameScope frame(at);
  return div(sum, weight);
}

double Loss::item(Frame at) const {
  const NoGrad no_grad;
  return mean(at).item(at);
}

void Loss::backward(BackwardOptions options, Frame at) const {
  const FrameScope frame(at);
  Tensor seed;
  {
    const NoGrad no_grad;
    seed = reciprocal(weight);
  }
  sum.backward(seed, options, at);
}

namespace detail {
Loss scaled(const Loss& loss, Scalar factor) {
  // Operators have no room for the caller's line: the scaling reports the loss's own.
  const Node* n = loss.sum.impl()->node;
  const FrameScope frame(n ? frame_of(n->frame) : Frame{});
  return Loss(mul(loss.sum, factor), loss.weight);
}
}  // namespace detail

namespace detail {
OpInfos loss_ops() {
  static constexpr const OpInfo* kOps[] = {&info::cross_entropy, &info::nll_loss, &info::mse_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
