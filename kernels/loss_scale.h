// The kernels of dynamic loss scaling, beside those of grad_norm.h and optim_step.h, which take a
// LossScale too. The rule by which a scale moves is in optim/loss_scale_state.h.
#pragma once
#include "warptape/kernels/grad_norm.h"

namespace wt {

// What a scaled step's backward begins with. The losses of a step add up and their sum is divided
// by the summed weight at the end; a backward that began with the whole scale would give gradients
// weight times as large as a mean's and overflow that much earlier. So it begins with
//
//   seed = scale / 2^power,  2^(power - 1) < weight * parts <= 2^power
//
// where weight is that of the first of `parts` micro-batches: about the mean's gradients, and a
// power of two changes no bit of them. (Where that has no weight, `samples` of the whole batch
// stands for the product.) `propose` computes step->seed_power, `fix` the seed from it; several
// ranks agree on the largest power in between.
struct LossSeedArgs {
  StepBlock* step;
  const LossScale* scaler;
  i64 parts, samples;
  bool propose = true, fix = true;
  i64 bytes() const { return 32; }
  i64 flops() const { return 2; }
};
WT_CONTRACT(loss_seed, LossSeedArgs);

// A raw loop's update: the scale moves by what optimizers found since the last one.
struct LossScaleUpdateArgs {
  LossScale* scaler;
  i64 bytes() const { return 2 * i64(sizeof(LossScale)); }
  i64 flops() const { return 2; }
};
WT_CONTRACT(loss_scale_update, LossScaleUpdateArgs);

// x *= scaler->inverse in place and, in the same pass, partials[k] = sum of the new x[i]^2 over the
// k-th chunk, as grad_norm's. x: n elements, f32 or f64.
struct GradUnscaleArgs {
  void* x;
  i64 n;
  DType dtype;
  const LossScale* scaler;
  double* partials;
  i64 bytes() const { return 2 * n * item_size(dtype) + 8 * norm_chunks(n); }
  i64 flops() const { return 3 * n; }
};
WT_CONTRACT(grad_unscale, GradUnscaleArgs);

// --- the arithmetic, shared by all devices ---
namespace detail {

// The smallest k with v <= 2^k, within +-126; 0 for what is no positive number.
WT_HD WT_HOT i32 power_above(double v) {
  if (!(v > 0)) return 0;
  i32 k = 0;
  double p = 1;
  for (; k < 126 && p < v; ++k) p *= 2;
  for (; k > -126 && p * 0.5 >= v; --k) p *= 0.5;
  return k;
}

WT_HD WT_HOT void seed_loss(const LossSeedArgs& a) {
  StepBlock& s = *a.step;
  const bool weighs = s.weight > 0;  // false for NaN
  if (a.propose)
    s.seed_power = power_above(weighs ? s.weight * double(a.parts) : double(a.samples));
  if (!a.fix) return;
  double seed = a.scaler->scale;
  for (i32 k = s.seed_power; k > 0; --k) seed *= 0.5;
  for (i32 k = s.seed_power; k < 0; ++k) seed *= 2;
  s.seed = seed;
  s.seed_f32 = float(seed);
}

WT_HD WT_HOT void update_scale(LossScale& s) {
  s.exhausted |= s.found && s.scale <= s.min_scale;
  next_scale(s, s.found != 0);
  s.found = 0;
}

}  // namespace detail
}  // namespace wt
