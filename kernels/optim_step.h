// The scalars in device memory that drive a training step, and the kernels that move them on. What
// an optimizer does to its parameters is in optim_rule.h.
//
// A training step never waits for the host: what changes from step to step (rate, step count, clip
// factor, flags) lies on the device and kernels take pointers. No STL: .cu files include this.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/optim/loss_scale_state.h"
#include "warptape/kernels/step_record.h"

namespace wt {

// What rules multiply by, computed in f64 by step_advance and rounded once: a kernel's threads load
// some of these and neither divide nor wait for one scalar to find another. Four at a time are one
// load of f32, two of f64; which rule takes which is in optim_rule.h.
template <class T>
struct alignas(16) RuleScalars {
  T decay = 0;  // 1 - rate * weight_decay
  T eps = 0, one_minus_beta1 = 0, one_minus_beta2 = 0;

  T beta2 = 0;
  T step_size = 0;    // rate / bias1
  T bias2_scale = 0;  // 1 / bias2_sqrt
  T rate = 0;

  T weight_decay = 0, momentum = 0, one_minus_momentum = 0;
  T keep = 0;  // sgd: what the buffer takes of a gradient

  T beta1 = 0, alpha = 0, one_minus_alpha = 0;
  T adagrad_rate = 0;  // rate / (1 + applied * lr_decay)

  T gradient_rate = 0, mean_rate = 0;  // nadam: of the gradient and of its average
  T rectify = 0;                       // radam
  T one_minus_ema_decay = 0;
};

// In place of a count of steps.
inline constexpr i64 kEmaNeverCopies = -1, kEmaHasCopied = -2;

// One a group of an optimizer, in the memory of its parameters' device. Fields above `applied` are
// written by the host only, those from it on by kernels only.
struct OptimBlock {
  double lr = 0;
  double lr_factor = 1;  // what a schedule that watches the loss writes
  double momentum = 0, dampening = 0, weight_decay = 0;
  double beta1 = 0, beta2 = 0, eps = 0;
  double alpha = 0;                  // rmsprop: of the running average of squares
  double lr_decay = 0;               // adagrad
  double momentum_decay = 0;         // nadam
  double mu_base = 1;                // 0.96^momentum_decay
  double ema_decay = 0;              // of the average of the weights
  const double* schedule = nullptr;  // factors of lr for applied counts from schedule_begin on
  i64 schedule_begin = 0, schedule_size = 0;
  // The applied count whose step copies the weights into their average.
  i64 ema_copies_at = kEmaNeverCopies;
  // Steps that changed parameters: schedules count these, and so do the corrections of parameters
  // that have taken part in all of them; those of others are in a Cohort.
  i64 applied = 0;
  i64 attempted = 0;      // all steps: data and logs count these
  double mu_product = 1;  // nadam: of the mu of all applied steps
  // What the next step uses, derived from the above.
  double rate = 0;        // lr * lr_factor * schedule
  double bias1 = 1;       // 1 - beta1^(applied + 1)
  double bias2_sqrt = 1;  // sqrt(1 - beta2^(applied + 1))
  double mu = 0;          // nadam: beta1 * (1 - mu_base^(applied + 1) / 2)
  double mu_next = 0;     // of the step after
  double rectify = 0;     // radam: see detail::rectification()
  RuleScalars<float> f32{};
  RuleScalars<double> f64{};
};

// Parameters of an arena that lie side by side and have taken part in the same steps, which were
// not all of the optimizer's (frozen for a while, not in the loss): what counts steps counts
// theirs. A table of them lies beside the block of their group.
struct Cohort {
  i64 end = 0;     // the arena's element behind the last one, written by the host
  i64 source = 0;  // where a new table finds the counts: in the earlier one, -1: in the block
  i64 applied = 0;
  double mu_product = 1;
  double mu = 0;
  RuleScalars<float> f32{};
  RuleScalars<double> f64{};
};

// A step does nothing while one of these is raised. Null pointers count as lowered.
struct StepFlags {
  const i32* flag[3] = {};
  WT_HD WT_HOT bool skip() const {
    // All are read, none waits for what another one said.
    i32 any = 0;
    for (int k = 0; k < 3; ++k) any |= flag[k] ? *flag[k] : 0;
    return any != 0;
  }
};

// No weight: 0 items, whose mean is 0 / 0. That is the batch's matter and no overflow.
enum StepFound : i32 {
  kFoundNothing = 0,
  kFoundBadLoss = 1,
  kFoundBadGradient = 2,
  kFoundNoWeight = 4
};
// Why a step does nothing. Ranks agree on the largest: one that found an overflow lowers the scale
// of all.
enum StepSkip : i32 { kSkipNot = 0, kSkipRefused = 1, kSkipFound = 2 };

// One a TrainStep.
struct StepBlock {
  double loss_sum, weight;  // over the micro-batches
  double loss, grad_norm;   // of the mean
  double factor;            // what gradients are multiplied by: clip / (weight * seed)
  i32 found;                // StepFound bits of this step
  i32 stop;                 // the first `found` that stops, until the host lowers it
  i32 skip;                 // the step's one predicate, a StepSkip
  i32 bad_index;            // the mailbox was raised when the step decided
  i64 call_base;            // calls of the dropout stream before this step
  double seed;              // what a scaled step began its backward with; 0: not scaled
  float seed_f32;
  i32 seed_power;
  StepRecord ring[kStepRing];  // [attempt % kStepRing]
};

// Some of a table's cohorts.
struct CohortRange {
  i32 begin, end;
};
inline constexpr int kCohortRanges = 4;

// The last kernel of a step: counts it (applied and dropout calls only unless flags.skip()), writes
// its record, and derives what the next one uses, of the cohorts too. count = false: only derives,
// after the host wrote to the block.
struct StepAdvanceArgs {
  OptimBlock* block;
  StepBlock* step;  // null: a bare optimizer step, no record
  bool count;
  StepFlags flags;
  i64 dropout_calls = 0;        // that this step made
  LossScale* scaler = nullptr;  // moves with `step`, unless the step was refused
  Cohort* cohorts = nullptr;    // the group's, all of them; null: there are none
  i64 n_cohorts = 0;
  CohortRange stepped[kCohortRanges] = {};  // those that took part in the step
  // Nothing but the cohorts in `stepped`: where these are more ranges than fit.
  bool cohorts_alone = false;
  // The table is new: its counts are those of Cohort::source.
  bool lays_out = false;
  const Cohort* earlier = nullptr;  // the table before
  i64 bytes() const {
    return sizeof(OptimBlock) + (step ? i64(sizeof(StepRecord)) : 0) +
           n_cohorts * i64(sizeof(Cohort));
  }
  i64 flops() const { return 0; }
};
WT_CONTRACT(step_advance, StepAdvanceArgs);

// to = from, only if flags.skip(): puts a buffer back when the step is skipped.
struct StepRestoreArgs {
  void* to;
  const void* from;
  i64 size;  // bytes
  StepFlags flags;
  i64 bytes() const { return 2 * size; }
  i64 flops() const { return 0; }
};
WT_CONTRACT(step_restore, StepRestoreArgs);

// --- the arithmetic, shared by all devices ---
namespace detail {

// x^n by squaring: the same bits on every device, which pow() does not promise.
WT_HD WT_HOT double integer_power(double x, i64 n) {
  double r = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return r;
}

// What RAdam (Liu et al. 2020) multiplies a step by while the variance of 1 / sqrt(v) is known well
// enough, and bias2_sqrt with it; 0 where it is not. beta2_power: beta2^t, of step t.
template <class Root>
WT_HD WT_HOT double rectification(double beta2, double beta2_power, i64 t, double bias2_sqrt,
                                  Root root) {
  const double most = 2 / (1 - beta2) - 1;
  const double now = most - 2 * double(t) * beta2_power / (1 - beta2_power);
  if (!(now > 5)) return 0;
  double r = 0;
  root((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now), r);
  return r * bias2_sqrt;
}

template <class T>
WT_HD WT_HOT const RuleScalars<T>& scalars_of(const OptimBlock& b) {
  if constexpr (sizeof(T) == sizeof(float))
    return b.f32;
  else
    return b.f64;
}

template <class T>
WT_HD WT_HOT const RuleScalars<T>& scalars_of(const Cohort& c) {
  if constexpr (sizeof(T) == sizeof(float))
    return c.f32;
  else
    return c.f64;
}

// What follows from a number of applied steps.
struct StepPowers {
  i64 applied;
  double mu_product;
  double bias1 = 1, bias2_sqrt = 1, mu = 0, mu_next = 0, rectify = 0;
};

template <class Root>
WT_HD WT_HOT StepPowers powers_of(const OptimBlock& b, i64 applied, double mu_product, Root root) {
  StepPowers p{.applied = applied, .mu_product = mu_product};
  if (b.beta1 == 0 && b.beta2 == 0) return p;
  const i64 t = applied + 1;
  const double beta2_power = integer_power(b.beta2, t), mu_power = integer_power(b.mu_base, t);
  p.bias1 = 1 - integer_power(b.beta1, t);
  root(1 - beta2_power, p.bias2_sqrt);
  p.mu = b.beta1 * (1 - 0.5 * mu_power);
  p.mu_next = b.beta1 * (1 - 0.5 * mu_power * b.mu_base);
  p.rectify = rectification(b.beta2, beta2_power, t, p.bias2_sqrt, root);
  return p;
}

// The scalars that rules load, of a block's options and rate.
WT_HD WT_HOT void pack(const OptimBlock& b, const StepPowers& p, RuleScalars<double>& s,
                       RuleScalars<float>& rounded) {
  s.decay = 1 - b.rate * b.weight_decay;
  s.eps = b.eps;
  s.one_minus_beta1 = 1 - b.beta1;
  s.one_minus_beta2 = 1 - b.beta2;
  s.beta2 = b.beta2;
  s.step_size = b.rate / p.bias1;
  s.bias2_scale = 1 / p.bias2_sqrt;
  s.rate = b.rate;
  s.weight_decay = b.weight_decay;
  s.momentum = b.momentum;
  s.one_minus_momentum = 1 - b.momentum;
  s.keep = p.applied > 0 ? 1 - b.dampening : 1;
  s.beta1 = b.beta1;
  s.alpha = b.alpha;
  s.one_minus_alpha = 1 - b.alpha;
  s.adagrad_rate = b.rate / (1 + double(p.applied) * b.lr_decay);
  const double product = p.mu_product * p.mu;
  s.gradient_rate = b.rate * (1 - p.mu) / (1 - product);
  s.mean_rate = b.rate * p.mu_next / (1 - product * p.mu_next);
  s.rectify = p.rectify;
  s.one_minus_ema_decay = b.applied == b.ema_copies_at ? 1 : 1 - b.ema_decay;
  constexpr int kScalars = sizeof(RuleScalars<double>) / sizeof(double);
  static_assert(sizeof(RuleScalars<float>) == kScalars * sizeof(float));
  const double* const from = reinterpret_cast<const double*>(&s);
  float* const to = reinterpret_cast<float*>(&rounded);
  for (int k = 0; k < kScalars; ++k) to[k] = float(from[k]);
}
// Of the block's own fields.
WT_HD WT_HOT void pack(OptimBlock& b) {
  pack(b, {b.applied, b.mu_product, b.bias1, b.bias2_sqrt, b.mu, b.mu_next, b.rectify}, b.f64,
       b.f32);
}

template <class Root>
WT_HD WT_HOT void derive(OptimBlock& b, Root root) {
  double factor = b.lr_factor;
  if (b.schedule) {
    const i64 k = b.applied - b.schedule_begin;
    factor *= b.schedule[k < 0 ? 0 : k < b.schedule_size ? k : b.schedule_size - 1];
  }
  b.rate = b.lr * factor;
  if (b.beta1 != 0 || b.beta2 != 0) {
    const StepPowers p = powers_of(b, b.applied, b.mu_product, root);
    b.bias1 = p.bias1;
    b.bias2_sqrt = p.bias2_sqrt;
    b.mu = p.mu;
    b.mu_next = p.mu_next;
    b.rectify = p.rectify;
  }
  pack(b);
}

template <class Root>
WT_HD WT_HOT void advance(const StepAdvanceArgs& a, Root root) {
  OptimBlock& b = *a.block;
  if (a.count) {
    const bool skipped = a.flags.skip();
    const i64 attempt = b.attempted++;
    b.applied += !skipped;
    if (!skipped) b.mu_product *= b.mu;
    if (a.step && !skipped) a.step->call_base += a.dropout_calls;
    if (a.step)
      a.step->ring[attempt % kStepRing] = {
          .loss = a.step->loss,
          .grad_norm = a.step->grad_norm,
          .lr = b.rate,
          .attempt = attempt,
          .applied = b.applied,
          .skipped = skipped,
          .found = a.step->found,
          .scale = a.scaler ? a.scaler->scale : 1,
      };
    if (a.step && a.scaler && a.step->skip != kSkipRefused)
      next_scale(*a.scaler, a.step->skip == kSkipFound);
  }
  derive(b, root);
}

// Behind advance(), for each of the table's cohorts.
template <class Root>
WT_HD WT_HOT void advance_cohort(const StepAdvanceArgs& a, i64 k, Root root) {
  const OptimBlock& b = *a.block;
  Cohort& c = a.cohorts[k];
  bool stepped = false;
  for (const CohortRange& r : a.stepped) stepped |= r.begin <= k && k < r.end;
  if (a.cohorts_alone && !stepped) return;
  if (a.lays_out) {
    c.applied = c.source < 0 ? b.applied : a.earlier[c.source].applied;
    c.mu_product = c.source < 0 ? b.mu_product : a.earlier[c.source].mu_product;
  }
  if (a.count && stepped && !a.flags.skip()) {
    ++c.applied;
    c.mu_product *= c.mu;
  }
  const StepPowers p = powers_of(b, c.applied, c.mu_product, root);
  c.mu = p.mu;
  pack(b, p, c.f64, c.f32);
}

}  // namespace detail
}  // namespace wt
