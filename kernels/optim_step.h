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
  i64 applied = 0;    // steps that changed the parameters: schedule and bias correction count these
  i64 attempted = 0;  // all steps: data and logs count these
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

// The last kernel of a step: counts it (applied and dropout calls only unless flags.skip()), writes
// its record, and derives what the next one uses. count = false: only derives, after the host wrote
// to the block.
struct StepAdvanceArgs {
  OptimBlock* block;
  StepBlock* step;  // null: a bare optimizer step, no record
  bool count;
  StepFlags flags;
  i64 dropout_calls = 0;        // that this step made
  LossScale* scaler = nullptr;  // moves with `step`, unless the step was refused
  i64 bytes() const { return sizeof(OptimBlock) + (step ? i64(sizeof(StepRecord)) : 0); }
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

// The scalars that rules load, of the fields above them.
WT_HD WT_HOT void pack(OptimBlock& b) {
  RuleScalars<double>& s = b.f64;
  s.decay = 1 - b.rate * b.weight_decay;
  s.eps = b.eps;
  s.one_minus_beta1 = 1 - b.beta1;
  s.one_minus_beta2 = 1 - b.beta2;
  s.beta2 = b.beta2;
  s.step_size = b.rate / b.bias1;
  s.bias2_scale = 1 / b.bias2_sqrt;
  s.rate = b.rate;
  s.weight_decay = b.weight_decay;
  s.momentum = b.momentum;
  s.one_minus_momentum = 1 - b.momentum;
  s.keep = b.applied > 0 ? 1 - b.dampening : 1;
  s.beta1 = b.beta1;
  s.alpha = b.alpha;
  s.one_minus_alpha = 1 - b.alpha;
  s.adagrad_rate = b.rate / (1 + double(b.applied) * b.lr_decay);
  const double product = b.mu_product * b.mu;
  s.gradient_rate = b.rate * (1 - b.mu) / (1 - product);
  s.mean_rate = b.rate * b.mu_next / (1 - product * b.mu_next);
  s.rectify = b.rectify;
  s.one_minus_ema_decay = 1 - b.ema_decay;
  constexpr int kScalars = sizeof(RuleScalars<double>) / sizeof(double);
  static_assert(sizeof(RuleScalars<float>) == kScalars * sizeof(float));
  const double* const from = reinterpret_cast<const double*>(&b.f64);
  float* const to = reinterpret_cast<float*>(&b.f32);
  for (int k = 0; k < kScalars; ++k) to[k] = float(from[k]);
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
    const i64 t = b.applied + 1;
    const double beta2_power = integer_power(b.beta2, t), mu_power = integer_power(b.mu_base, t);
    b.bias1 = 1 - integer_power(b.beta1, t);
    root(1 - beta2_power, b.bias2_sqrt);
    b.mu = b.beta1 * (1 - 0.5 * mu_power);
    b.mu_next = b.beta1 * (1 - 0.5 * mu_power * b.mu_base);
    b.rectify = rectification(b.beta2, beta2_power, t, b.bias2_sqrt, root);
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

}  // namespace detail
}  // namespace wt
