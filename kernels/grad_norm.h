// The global gradient norm, and what follows from it: clip factor, found-inf flag, mean loss.
#pragma once
#include "warptape/kernels/optim_step.h"

namespace wt {

// Elements that one partial sum covers, on every device.
inline constexpr i64 kNormChunk = 8192;
constexpr i64 norm_chunks(i64 n) { return (n + kNormChunk - 1) / kNormChunk; }

// partials[k] = sum of grad[i]^2 over the k-th chunk, k < norm_chunks(n), in f64 and in a fixed
// order. grad: n elements, f32 or f64.
struct GradNormArgs {
  const void* grad;
  i64 n;
  DType dtype;
  double* partials;
  i64 bytes() const { return n * item_size(dtype) + 8 * norm_chunks(n); }
  i64 flops() const { return 2 * n; }
};
WT_CONTRACT(grad_norm, GradNormArgs);

// norm = sqrt(sum of partials), clip = min(1, max_norm / (norm + 1e-6)), 1 for max_norm 0; NaN
// stays NaN. Without `step`: *norm and *factor = clip; with a scaler the gradients are scaled:
// both are divided by its scale, *found = the norm is not finite, and scaler->found is raised too.
//
// With it the gradients are those of a sum of losses: everything is divided by step->weight first,
// with a scaler by step->seed too.
//   step: grad_norm, loss = loss_sum / weight, factor = clip / (weight * seed), found, bad_index;
//   step->stop = found if on_found is stop, the mailbox is lowered, stop is 0 and there is no scale
//     left to lower;
//   step->skip = refused by the mailbox or stop, or found, unless on_found is ignore.
// No partials (null): the norm is not known, NaN and not counted as found.
struct StepDecideArgs {
  const double* partials;
  i64 count;
  double max_norm;  // 0: no clipping
  double* norm;
  double* factor;
  StepBlock* step;
  NonFinite on_found;
  const i32* mailbox;           // null: none
  LossScale* scaler = nullptr;  // null: gradients are not scaled
  bool unscaled = false;        // without `step`: grad_unscale has divided them already
  i32* found = nullptr;
  i64 bytes() const { return 8 * count; }
  i64 flops() const { return count; }
};
WT_CONTRACT(step_decide, StepDecideArgs);

// x *= *factor; n elements, f32 or f64.
struct GradScaleArgs {
  void* x;
  i64 n;
  DType dtype;
  const double* factor;
  i64 bytes() const { return 2 * n * item_size(dtype); }
  i64 flops() const { return n; }
};
WT_CONTRACT(grad_scale, GradScaleArgs);

// step->loss_sum += *sum, step->weight += *weight (weight_value where it is null); `first` starts
// from zero. sum: f32 or f64; weight: f32, f64 or i64.
struct LossAddArgs {
  const void* sum;
  DType sum_dtype;
  const void* weight;
  DType weight_dtype;
  double weight_value;
  StepBlock* step;
  bool first;
  i64 bytes() const { return 32; }
  i64 flops() const { return 2; }
};
WT_CONTRACT(loss_add, LossAddArgs);

// --- the arithmetic, shared by all devices ---
namespace detail {

WT_HD WT_HOT bool is_finite(double v) { return v - v == 0; }
WT_HD WT_HOT double clip_of(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  const double c = max_norm / (norm + 1e-6);
  return c > 1 ? 1 : c;
}

WT_HD WT_HOT void decide_alone(const StepDecideArgs& a, double norm) {
  const double scale = a.scaler && !a.unscaled ? a.scaler->inverse : 1;
  norm *= scale;
  *a.norm = norm;
  *a.factor = clip_of(norm, a.max_norm) * scale;
  if (!a.scaler) return;
  *a.found = !is_finite(norm);
  a.scaler->found |= *a.found;
}
WT_HD WT_HOT void decide(const StepDecideArgs& a, double norm) {
  if (!a.step) return decide_alone(a, norm);
  StepBlock& s = *a.step;
  const double per_item = 1 / s.weight, scale = a.scaler ? per_item / s.seed : per_item;
  norm *= scale < 0 ? -scale : scale;
  s.loss = s.loss_sum * per_item;
  s.found = (is_finite(s.loss) ? 0 : kFoundBadLoss) |
            (!a.partials || is_finite(norm) ? 0 : kFoundBadGradient);
  if (s.found && s.weight == 0) s.found |= kFoundNoWeight;
  s.grad_norm = norm;
  s.factor = clip_of(norm, a.max_norm) * scale;
  s.bad_index = a.mailbox && *a.mailbox;
  // Where nothing has weight no scale helps, and none is lowered.
  const bool may_stop =
      !a.scaler || s.found >= kFoundNoWeight || a.scaler->scale <= a.scaler->min_scale;
  if (!s.stop && a.on_found == NonFinite::stop && !s.bad_index && may_stop) s.stop = s.found;
  i32 skip = kSkipNot;
  if (s.found && (a.scaler || a.on_found != NonFinite::ignore))
    skip = s.found >= kFoundNoWeight ? kSkipRefused : kSkipFound;
  s.skip = s.bad_index || s.stop ? kSkipRefused : skip;
}

WT_HD WT_HOT double read_scalar(const void* p, DType t) {
  return t == DType::f64   ? *static_cast<const double*>(p)
         : t == DType::f32 ? double(*static_cast<const float*>(p))
                           : double(*static_cast<const i64*>(p));
}
WT_HD WT_HOT void add_loss(const LossAddArgs& a) {
  const double w = a.weight ? read_scalar(a.weight, a.weight_dtype) : a.weight_value;
  const double s = read_scalar(a.sum, a.sum_dtype);
  a.step->loss_sum = (a.first ? 0 : a.step->loss_sum) + s;
  a.step->weight = (a.first ? 0 : a.step->weight) + w;
}

}  // namespace detail
}  // namespace wt
