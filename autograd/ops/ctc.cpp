// Connectionist temporal classification: a kernel for the value and one for the gradient; under
// create_graph the gradient is made of operators, step by step, so that it has derivatives itself.
#include "warptape/autograd/ops/ctc.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/bad_index.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/ctc.h"

namespace wt {
namespace info {
constexpr OpInfo ctc_loss{.name = "ctc_loss", .autocast = Autocast::f32, .data_dependent = true};
}  // namespace info

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();  // the logarithm of nothing

// Operands; slots of the node are the same, then:
enum : int { kLogProbs, kTargets, kInputLengths, kTargetLengths, kLosses, kAlpha };

// --- checks ---

void check_operands(const OpScope& s, const CtcOptions& o) {
  detail::require_floating(s, kLogProbs);
  const Geometry &x = s.geometry(kLogProbs), &targets = s.geometry(kTargets);
  if (x.ndim != 3) s.fail<ShapeError>(str("log_probs must be [T, N, C], got ", shape_of(x)));
  const i64 samples = x.shape[1], classes = x.shape[2];
  const char* const names[] = {"", "targets", "input_lengths", "target_lengths"};
  for (int i = kTargets; i <= kTargetLengths; ++i)
    if (s.dtype(i) != DType::i64)
      s.fail<DtypeError>(str(names[i], " must be i64, got ", dtype_name(s.dtype(i))),
                         ".to(DType::i64)");
  for (int i = kInputLengths; i <= kTargetLengths; ++i)
    if (shape_of(s.geometry(i)) != Shape{samples})
      s.fail<ShapeError>(
          str(names[i], " must be [", samples, "], one a sample, got ", shape_of(s.geometry(i))));
  if (targets.ndim != 1 && (targets.ndim != 2 || targets.shape[0] != samples))
    s.fail<ShapeError>(str("targets must be [", samples, ", L] or [sum of target_lengths], got ",
                           shape_of(targets)));
  if (o.blank < 0 || o.blank >= classes)
    s.fail<IndexError>(str("blank ", o.blank, " is outside [0, ", classes, ")"));
}

std::vector<i64> numbers(const OpScope& s, int operand) {
  const NoGrad no_grad;
  return Tensor(detail::retained(s.impl(operand))).to_vector<i64>();
}

// The longest target, after the lengths were found in range.
i64 checked_lengths(const OpScope& s) {
  const Geometry &x = s.geometry(kLogProbs), &targets = s.geometry(kTargets);
  const bool rows = targets.ndim == 2;
  const i64 most = rows ? targets.shape[1] : targets.shape[0];
  if (s.device().is_meta) return most;
  const std::vector<i64> steps = numbers(s, kInputLengths), labels = numbers(s, kTargetLengths);
  i64 longest = 0, sum = 0;
  for (size_t n = 0; n < steps.size(); ++n) {
    if (steps[n] < 0 || steps[n] > x.shape[0])
      s.fail<UsageError>(
          str("input_lengths[", n, "] is ", steps[n], ", outside [0, ", x.shape[0], "]"));
    if (labels[n] < 0 || labels[n] > most)
      s.fail<UsageError>(
          str("target_lengths[", n, "] is ", labels[n], ", outside [0, ", most, "]"));
    longest = std::max(longest, labels[n]), sum += labels[n];
  }
  if (!rows && sum != most)
    s.fail<UsageError>(str("target_lengths add up to ", sum, ", targets has ", most, " labels"));
  return longest;
}

// --- the gradient from operators ---

// log(exp(a) + exp(b) + exp(c)), of which all may be -inf: then it is -inf, without a gradient.
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  Tensor top = maximum(a.detach(), maximum(b.detach(), c.detach()));
  const Tensor none = eq(top, kNone);
  top = where(none, 0.0, top);
  const auto share = [&](const Tensor& t) { return exp(sub(t, top)); };
  const Tensor total = add(add(share(a), share(b)), share(c));
  return where(none, kNone, add(log(where(none, 1.0, total)), top));
}
// The states k places before (later: behind), -inf where there is none. a: [N, X].
Tensor shifted(const Tensor& a, i64 k, bool later) {
  const i64 width = a.size(1), n = std::min(k, width);
  const Tensor pad = full({a.size(0), n}, kNone, {.dtype = a.dtype(), .device = a.device()});
  const Tensor rest = later ? slice(a, 1, {n, width}) : slice(a, 1, {0, width - n});
  return later ? cat({rest, pad}, 1) : cat({pad, rest}, 1);
}

// The states of all samples, side by side: [N, X], X for the longest target.
struct States {
  Tensor classes;                    // i64
  Tensor exist, skips, first, last;  // bool; skips: a path may come from two states before
  Tensor steps;                      // [N, 1]
};
Tensor truth(const std::vector<u8>& v, const Shape& shape, Device d) {
  return ne(tensor(v).reshape(shape), 0).to(d);
}
States states_of(Backward& g, i64 blank) {
  const Tensor &targets = g.saved(kTargets), &steps = g.saved(kInputLengths);
  const std::vector<i64> labels = targets.to_vector<i64>();
  const std::vector<i64> lengths = g.saved(kTargetLengths).to_vector<i64>();
  const i64 samples = i64(lengths.size()), width = g.saved(kAlpha).size(2);
  const size_t all = size_t(samples * width);
  std::vector<i64> classes(all, blank);
  std::vector<u8> exist(all), skips(all), first(all), last(all);
  i64 start = 0;
  for (i64 n = 0; n < samples; ++n) {
    if (targets.ndim() == 2) start = n * targets.size(1);
    const i64 count = 2 * lengths[size_t(n)] + 1;
    for (i64 s = 0; s < count; ++s) {
      const size_t at = size_t(n * width + s);
      if (s % 2) classes[at] = labels[size_t(start + s / 2)];
      exist[at] = 1;
      first[at] = s < 2;
      last[at] = s + 2 >= count;
      skips[at] = s % 2 && s >= 2 && classes[at] != classes[at - 2];
    }
    start += lengths[size_t(n)];
  }
  const Device d = targets.device();
  const Shape shape{samples, width};
  return {tensor(classes).reshape(shape).to(d),
          truth(exist, shape, d),
          truth(skips, shape, d),
          truth(first, shape, d),
          truth(last, shape, d),
          steps.unsqueeze(1)};
}

// alpha and beta of every step (kernels/ctc.h), and the losses, [N, 1]; y: [T, N, X].
struct Recursions {
  std::vector<Tensor> alpha, beta;
  Tensor loss;
};
Recursions recursions(const Tensor& y, const States& x) {
  const i64 steps = y.size(0);
  const auto only = [](const Tensor& keep, const Tensor& a) { return where(keep, a, kNone); };
  Recursions r;
  for (i64 t = 0; t < steps; ++t) {
    const Tensor now = y.select(0, t);
    if (t == 0) {
      r.alpha.push_back(only(x.first, now));
      continue;
    }
    const Tensor& before = r.alpha.back();
    const Tensor sum =
        log_sum(before, shifted(before, 1, false), only(x.skips, shifted(before, 2, false)));
    r.alpha.push_back(where(gt(x.steps, t), only(x.exist, add(now, sum)), before));
  }
  const Tensor ends = only(x.last, r.alpha.back());
  Tensor top = max(ends.detach(), 1, {.keep_dim = true});
  const Tensor none = eq(top, kNone);
  top = where(none, 0.0, top);
  const Tensor total = sum(exp(sub(ends, top)), 1, {.keep_dim = true});
  r.loss = neg(where(none, kNone, add(log(where(none, 1.0, total)), top)));
  const Tensor at_end = where(x.last, 0.0, full_like(ends.detach(), kNone));
  Tensor later = full_like(at_end, kNone);
  r.beta.resize(size_t(steps));
  for (i64 t = steps; t-- > 0;) {
    if (t + 1 < steps) {
      const Tensor on = add(later, y.select(0, t + 1));
      later = log_sum(on, shifted(on, 1, true), shifted(only(x.skips, on), 2, true));
    }
    later = where(eq(x.steps, t + 1), at_end, only(logical_and(x.exist, gt(x.steps, t)), later));
    r.beta[size_t(t)] = later;
  }
  return r;
}

Tensor scales(Backward& g, bool divide_by_length, DType t) {
  const Tensor n = to_dtype(g.saved(kTargetLengths), t).unsqueeze(1);
  return divide_by_length ? reciprocal(maximum(n, 1.0)) : ones_like(n);
}

void ctc_composite(Backward& g, const CtcOptions& o) {
  const Tensor& saved = g.saved(kLogProbs);
  const DType t = saved.dtype(), wide = loss_dtype(t);
  const i64 steps = saved.size(0), samples = saved.size(1), classes = saved.size(2);
  const States x = states_of(g, o.blank);
  const i64 width = x.classes.size(1);
  const Tensor log_probs = to_dtype(saved, wide);
  const Tensor y = gather(log_probs, 2, expand(x.classes, {steps, samples, width}));
  const Recursions r = recursions(y, x);
  const Tensor fits = isfinite(g.saved(kLosses)).unsqueeze(1);
  const Tensor loss = where(fits, r.loss, 0.0);
  std::vector<Tensor> parts;
  for (i64 k = 0; k < steps; ++k) {
    const Tensor both = add(r.alpha[size_t(k)], r.beta[size_t(k)]);
    const Tensor counts = logical_and(logical_and(ne(both, kNone), fits), gt(x.steps, k));
    parts.push_back(where_or_zero(counts, exp(add(where_or_zero(counts, both), loss))));
  }
  // From states to classes.
  const Tensor numbers = arange(0, classes, 1, {.dtype = DType::i64, .device = saved.device()});
  const Tensor hit = to_dtype(eq(x.classes.unsqueeze(2), numbers.reshape({1, 1, classes})), wide);
  const Tensor shares = matmul(stack(parts, 1), hit);  // [N, T, C]
  // The gradient of the sum, or one of each loss.
  const Tensor& gy = g.grad();
  const Tensor of_loss = neg(gy.ndim() == 0 ? gy : gy.unsqueeze(1));
  const Tensor scale = mul(scales(g, o.divide_by_length, wide), of_loss).unsqueeze(2);
  Tensor gx = permute(mul(shares, scale), {1, 0, 2});
  if (!o.zero_infinity) {
    const Tensor number =
        arange(0, steps, 1, {.dtype = DType::i64, .device = saved.device()}).reshape({steps, 1});
    const Tensor inside = gt(g.saved(kInputLengths).unsqueeze(0), number);
    const Tensor endless = eq(g.saved(kLosses), -kNone).unsqueeze(0);
    gx = where(logical_and(inside, endless).unsqueeze(2), std::numeric_limits<double>::quiet_NaN(),
               gx);
  }
  g.put(kLogProbs, to_dtype(gx, t));
}

void ctc_backward(Backward& g) {
  if (!g.wants(kLogProbs)) return;
  const auto o = g.attribute<CtcOptions>();
  const Tensor& x = g.saved(kLogProbs);
  if (g.recording()) return ctc_composite(g, o);
  // The kernel makes the gradient of the sum; of single losses it is each one's, times its own.
  const bool each = g.grad().ndim() == 1;
  const Tensor of_sum =
      each ? ones({}, {.dtype = g.grad().dtype(), .device = x.device()}) : g.grad();
  Tensor gx = empty_like(x);
  const auto saved = [&](int i) { return view_of(g.saved(u32(i)).impl()); };
  run(CtcBackwardArgs{view_of(gx.impl()), view_of(of_sum.impl()), saved(kLosses), saved(kAlpha),
                      view_of(x.impl()), saved(kTargets), saved(kInputLengths),
                      saved(kTargetLengths), o.blank, o.divide_by_length, o.zero_infinity},
      g.launch());
  g.put(kLogProbs, each ? mul(std::move(gx), g.grad().unsqueeze(1)) : std::move(gx));
}

struct Losses {
  Tensor y;  // their sum, 0-d, or with `each` they, [N]
  i64 samples;
};
Losses losses_of(const In* const* operands, const CtcOptions& o, bool each) {
  OpScope s(info::ctc_loss, operands, 4, Types::any);
  check_operands(s, o);
  const i64 width = 2 * checked_lengths(s) + 1;
  const Geometry& x = s.geometry(kLogProbs);
  const i64 samples = x.shape[1];
  const DType t = loss_dtype(x.dtype);
  const TensorOptions made{.dtype = t, .device = s.device()};
  const Tensor losses = empty({samples}, made);
  const Tensor alpha = empty({samples, x.shape[0], width}, made);
  if (s.recording()) {
    for (int i = kLogProbs; i <= kTargetLengths; ++i) s.save_input(i);
    s.save_extra(Tensor(alias_of(losses.impl())));
    s.save_extra(Tensor(alias_of(alpha.impl())));
  }
  Result y = s.result(&samples, each ? 1 : 0, t);
  const Tensor no_sum = each ? empty({}, made) : Tensor();
  s.record(ctc_backward);
  s.set_attribute(o);
  static const u32 id = mailbox_op_id(info::ctc_loss);
  BadIndexReport bad(s, id);
  run(CtcForwardArgs{each ? view_of(no_sum.impl()) : y.view(), view_of(losses.impl()),
                     view_of(alpha.impl()), s.view(kLogProbs), s.view(kTargets),
                     s.view(kInputLengths), s.view(kTargetLengths), o.blank, o.divide_by_length,
                     o.zero_infinity, bad.record(), bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "label", "place", kTargets);
  if (each) {
    const NoGrad no_grad;
    detail::copy_into(y.impl(),
                      (o.zero_infinity ? where(eq(losses, -kNone), 0.0, losses) : losses).impl());
  }
  return {s.finish(std::move(y)), samples};
}

}  // namespace

Loss ctc_loss(const In& log_probs, const In& targets, const In& input_lengths,
              const In& target_lengths, const CtcOptions& options) {
  const In* const operands[] = {&log_probs, &targets, &input_lengths, &target_lengths};
  Losses all = losses_of(operands, options, false);
  return Loss(std::move(all.y), double(all.samples));
}
Tensor ctc_loss(const In& log_probs, const In& targets, const In& input_lengths,
                const In& target_lengths, Unreduced, const CtcUnreducedOptions& options) {
  const In* const operands[] = {&log_probs, &targets, &input_lengths, &target_lengths};
  const In* const* const list = operands;
  CompositeScope s(info::ctc_loss, list, 4);
  detail::require_floating(s, kLogProbs);
  // In 16 bits the gradient, whose factors come after it, would be rounded twice.
  const Tensor wide = widened(s, kLogProbs);
  const In x(wide, log_probs.frame().file, log_probs.frame().line);
  const In* const wide_operands[] = {&x, &targets, &input_lengths, &target_lengths};
  const CtcOptions o{options.blank, false, options.zero_infinity};
  return s.finish(losses_of(wide_operands, o, true).y);
}

namespace detail {
OpInfos ctc_ops() {
  static constexpr const OpInfo* kOps[] = {&info::ctc_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
