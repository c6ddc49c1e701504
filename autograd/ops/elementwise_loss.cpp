// Losses of one number beside another. Where a chain of operators would divide 0 by 0 at a border,
// or lose the second derivative at a kink, the loss is one node with a backward of its own, written
// in operators that have derivatives themselves.
#include "warptape/autograd/ops/elementwise_loss.h"

#include <cmath>
#include <deque>
#include <vector>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/count_true.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/loss_ends.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace wt {
namespace info {
constexpr OpInfo l1_loss{.name = "l1_loss",
                         .autocast = Autocast::promote,
                         .derivative = Derivative::piecewise,
                         .composite = true};
constexpr OpInfo smooth_l1_loss{
    .name = "smooth_l1_loss", .autocast = Autocast::promote, .composite = true};
constexpr OpInfo huber_loss{.name = "huber_loss", .autocast = Autocast::promote, .composite = true};
constexpr OpInfo binary_cross_entropy{
    .name = "binary_cross_entropy", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo binary_cross_entropy_with_logits{
    .name = "binary_cross_entropy_with_logits", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo kl_div{.name = "kl_div", .autocast = Autocast::f32, .composite = true};
}  // namespace info

namespace {

void check_pair(const OpScope& s) {
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
}

// --- distances ---

// 0.5 q^2 + width |d - q| with q = d cut to [-width, width]: no branch that is not taken can make
// NaN of an infinite distance, and the second derivative is right at 0 too. (|d| - |q| would be the
// same with slopes of 1 that cancel, by which a small distance's own is lost.)
Tensor rounded_distance(const Tensor& d, double width) {
  const Tensor q = clamp(d, -width, width);
  return add(mul(square(q), 0.5), mul(abs(sub(d, q)), width));
}
// The same by `width`, which may be so small that its products lose their digits; in d's dtype it
// is not 0.
Tensor relative_distance(const Tensor& d, double width) {
  const Tensor q = clamp(d, -width, width);
  return add(mul(mul(q, 0.5), div(q, width)), abs(sub(d, q)));
}

Tensor difference(const OpScope& s) { return sub(widened(s, 0), widened(s, 1)); }

Tensor l1_losses(const CompositeScope& s) {
  check_pair(s);
  return abs(difference(s));
}
Tensor smooth_l1_losses(const CompositeScope& s, const SmoothL1Options& options) {
  check_pair(s);
  const double beta = options.beta;
  if (!(beta >= 0)) s.fail<UsageError>(str("beta must be at least 0, got ", beta));
  const Tensor d = difference(s);
  const bool none = d.dtype() == DType::f64 ? beta == 0 : float(beta) == 0;
  return none ? abs(d) : relative_distance(d, beta);
}
Tensor huber_losses(const CompositeScope& s, const HuberOptions& options) {
  check_pair(s);
  if (!(options.delta > 0))
    s.fail<UsageError>(str("delta must be greater than 0, got ", options.delta));
  return rounded_distance(difference(s), options.delta);
}

}  // namespace

Loss l1_loss(const In& input, const In& target) {
  CompositeScope s(info::l1_loss, input, target, Types::promote);
  return finish_loss(s, l1_losses(s), s.geometry(0).numel);
}
Tensor l1_loss(const In& input, const In& target, Unreduced) {
  CompositeScope s(info::l1_loss, input, target, Types::promote);
  return s.finish(l1_losses(s));
}

Loss smooth_l1_loss(const In& input, const In& target, const SmoothL1Options& options) {
  CompositeScope s(info::smooth_l1_loss, input, target, Types::promote);
  return finish_loss(s, smooth_l1_losses(s, options), s.geometry(0).numel);
}
Tensor smooth_l1_loss(const In& input, const In& target, Unreduced,
                      const SmoothL1Options& options) {
  CompositeScope s(info::smooth_l1_loss, input, target, Types::promote);
  return s.finish(smooth_l1_losses(s, options));
}

Loss huber_loss(const In& input, const In& target, const HuberOptions& options) {
  CompositeScope s(info::huber_loss, input, target, Types::promote);
  return finish_loss(s, huber_losses(s, options), s.geometry(0).numel);
}
Tensor huber_loss(const In& input, const In& target, Unreduced, const HuberOptions& options) {
  CompositeScope s(info::huber_loss, input, target, Types::promote);
  return s.finish(huber_losses(s, options));
}

// --- binary cross-entropy ---
namespace {

// Operands, and slots of the node.
enum : int { kInput, kTarget, kEachWeight, kPosWeight };
constexpr double kLeastLog = -100, kLeastSlope = 1e-12;

Tensor log_of(const Tensor& x) { return at_least(log(x), kLeastLog); }
Tensor log_of_rest(const Tensor& x) { return at_least(log1p(neg(x)), kLeastLog); }

void check_weight(const OpScope& s, int operand, const char* name) {
  const Geometry &x = s.geometry(kInput), &w = s.geometry(operand);
  bool fits = w.ndim <= x.ndim;
  for (int d = 0; fits && d < w.ndim; ++d) {
    const i64 size = x.shape[x.ndim - w.ndim + d];
    fits = w.shape[d] == size || w.shape[d] == 1;
  }
  if (!fits)
    s.fail<ShapeError>(
        str(name, " ", shape_of(w), " does not broadcast to the input's shape ", shape_of(x)));
}

// The cpu has the values at hand; on other devices asking for them would wait.
void require_probabilities(const OpScope& s) {
  if (!(s.device() == Device::cpu())) return;
  const NoGrad no_grad;
  const Tensor x(detail::retained(s.impl(kInput)));
  const i64 outside = detail::count_true(logical_or(lt(x, 0.0), gt(x, 1.0)));
  if (outside > 0)
    s.fail<UsageError>(
        str("input must be in [0, 1]: ", outside, " of ", x.numel(), " elements are outside"),
        "binary_cross_entropy_with_logits, or sigmoid() on the input");
}

// Slot i, in the dtype of the loss.
Tensor saved_wide(Backward& g, u32 i) {
  const Tensor& t = g.saved(i);
  return to_dtype(t, loss_dtype(t.dtype()));
}
void put_as_saved(Backward& g, u32 i, const Tensor& gradient) {
  g.put(i, to_dtype(gradient, g.saved(i).dtype()));
}
// Slopes times the gradient of every element's loss.
Tensor weighted_slopes(Backward& g, const Tensor& slope) {
  if (!g.has_saved(kEachWeight)) return mul(g.grad(), slope);
  return mul(g.grad(), weighted_or_zero(saved_wide(g, kEachWeight), slope));
}

void binary_cross_entropy_backward(Backward& g) {
  const Tensor x = saved_wide(g, kInput), t = saved_wide(g, kTarget);
  if (g.wants(kInput)) {
    const Tensor slope = at_least(mul(complement(x), x), kLeastSlope);
    put_as_saved(g, kInput, weighted_slopes(g, div(sub(x, t), slope)));
  }
  if (g.wants(kTarget))
    put_as_saved(g, kTarget, weighted_slopes(g, sub(log_of_rest(x), log_of(x))));
}

// log(1 + exp(-|x|)) + max(-x, 0). Beyond 40 even an f64 is the same without the logarithm.
Tensor minus_log_sigmoid(const Tensor& x) { return softplus(neg(x), 1, 40); }

void with_logits_backward(Backward& g) {
  const Tensor x = saved_wide(g, kInput), t = saved_wide(g, kTarget);
  const Tensor p = g.has_saved(kPosWeight) ? saved_wide(g, kPosWeight) : Tensor();
  if (g.wants(kInput)) {
    const Tensor y = sigmoid(x), pt = p.defined() ? mul(p, t) : t;
    const Tensor slope = p.defined() ? sub(mul(sub(add(pt, 1.0), t), y), pt) : sub(y, t);
    put_as_saved(g, kInput, weighted_slopes(g, slope));
  }
  if (!g.wants(kTarget)) return;
  Tensor slope = neg(x);
  if (p.defined()) slope = add(slope, mul(sub(p, 1.0), minus_log_sigmoid(x)));
  put_as_saved(g, kTarget, weighted_slopes(g, slope));
}

// The two ends of a loss that is a node of its own. `losses` are computed without recording.
struct Summed {
  template <class Losses>
  Loss operator()(OpScope& s, BackwardFn backward, const Losses& losses) const {
    Tensor total = unrecorded(s, [&] { return sum(losses()); });
    Tensor weight =
        full({}, double(s.geometry(kInput).numel), {.dtype = total.dtype(), .device = s.device()});
    s.record(backward);
    return Loss(s.finish(OpScope::adopt(std::move(total))), std::move(weight));
  }
  template <class F>
  static Tensor unrecorded(const OpScope& s, const F& f) {
    const FrameScope lines(s.frame());
    const NoGrad no_grad;
    return f();
  }
};
struct OneByOne {
  template <class Losses>
  Tensor operator()(OpScope& s, BackwardFn backward, const Losses& losses) const {
    Tensor each = Summed::unrecorded(s, losses);
    s.record(backward);
    return s.finish(OpScope::adopt(std::move(each)));
  }
};

// Input, target and those of two weights that are given: an optional one is no operand.
struct LossOperands {
  std::deque<In> weights{};
  std::vector<const In*> list;
  LossOperands(const In& input, const In& target, const Tensor& weight, const Tensor& pos_weight)
      : list{&input, &target} {
    for (const Tensor* t : {&weight, &pos_weight})
      if (t->defined()) list.push_back(&weights.emplace_back(*t));
  }
  int size() const { return int(list.size()); }
};

template <class End>
auto binary_losses(const LossOperands& in, const End& end) {
  OpScope s(info::binary_cross_entropy, in.list.data(), in.size(), Types::promote);
  check_pair(s);
  const bool weighted = s.size() > kEachWeight;
  if (weighted) check_weight(s, kEachWeight, "weight");
  require_probabilities(s);
  s.save_input(kInput);
  s.save_input(kTarget);
  s.save_input_if(weighted, kEachWeight);
  return end(s, binary_cross_entropy_backward, [&] {
    const Tensor x = widened(s, kInput), t = widened(s, kTarget);
    const Tensor loss = neg(add(mul(t, log_of(x)), mul(complement(t), log_of_rest(x))));
    return weighted ? weighted_or_zero(widened(s, kEachWeight), loss) : loss;
  });
}

template <class End>
auto with_logits_losses(const LossOperands& in, bool weighted, bool positive, const End& end) {
  OpScope s(info::binary_cross_entropy_with_logits, in.list.data(), in.size(), Types::promote);
  check_pair(s);
  const int pos_weight = weighted ? kPosWeight : kEachWeight;
  if (weighted) check_weight(s, kEachWeight, "weight");
  if (positive) check_weight(s, pos_weight, "pos_weight");
  s.save_input(kInput);
  s.save_input(kTarget);
  s.save_input_if(weighted, kEachWeight);
  s.save_input_if(positive, pos_weight);
  return end(s, with_logits_backward, [&] {
    const Tensor x = widened(s, kInput), t = widened(s, kTarget);
    Tensor rest = minus_log_sigmoid(x);
    if (positive) rest = mul(rest, add(mul(sub(widened(s, pos_weight), 1.0), t), 1.0));
    const Tensor loss = add(mul(complement(t), x), rest);
    return weighted ? weighted_or_zero(widened(s, kEachWeight), loss) : loss;
  });
}

}  // namespace

Loss binary_cross_entropy(const In& input, const In& target,
                          const BinaryCrossEntropyOptions& options) {
  return binary_losses(LossOperands(input, target, options.weight, {}), Summed());
}
Tensor binary_cross_entropy(const In& input, const In& target, Unreduced,
                            const BinaryCrossEntropyOptions& options) {
  return binary_losses(LossOperands(input, target, options.weight, {}), OneByOne());
}

Loss binary_cross_entropy_with_logits(const In& input, const In& target,
                                      const BinaryCrossEntropyWithLogitsOptions& options) {
  return with_logits_losses(LossOperands(input, target, options.weight, options.pos_weight),
                            options.weight.defined(), options.pos_weight.defined(), Summed());
}
Tensor binary_cross_entropy_with_logits(const In& input, const In& target, Unreduced,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  return with_logits_losses(LossOperands(input, target, options.weight, options.pos_weight),
                            options.weight.defined(), options.pos_weight.defined(), OneByOne());
}

// --- Kullback-Leibler ---

static Tensor kl_div_losses(const CompositeScope& s, const KlDivOptions& options) {
  check_pair(s);
  const Tensor x = widened(s, 0), t = widened(s, 1);
  if (options.log_target) {
    const Tensor p = exp(t);
    return mul(p, where_or_zero(ne(p, 0.0), sub(t, x)));
  }
  // t log(t) is 0 at 0, where log(t) is not to be asked, nor x if it is not finite.
  const Tensor entropy = mul(t, log(where(eq(t, 0.0), 1.0, t)));
  return sub(entropy, weighted_or_zero(t, x));
}

Loss kl_div(const In& input, const In& target, const KlDivOptions& options) {
  CompositeScope s(info::kl_div, input, target, Types::promote);
  const Tensor losses = kl_div_losses(s, options);
  return finish_loss(s, losses, losses.ndim() == 0 ? 1 : losses.size(0));
}
Tensor kl_div(const In& input, const In& target, Unreduced, const KlDivOptions& options) {
  CompositeScope s(info::kl_div, input, target, Types::promote);
  return s.finish(kl_div_losses(s, options));
}

namespace detail {
OpInfos elementwise_loss_ops() {
  static constexpr const OpInfo* kOps[] = {&info::l1_loss,
                                           &info::smooth_l1_loss,
                                           &info::huber_loss,
                                           &info::binary_cross_entropy,
                                           &info::binary_cross_entropy_with_logits,
                                           &info::kl_div};
  return kOps;
}
}  // namespace detail

}  // namespace wt
