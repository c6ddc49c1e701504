// Lab 13: AdamW with clipping, and no wait for the host. page.md has the task; bodies with "Yours"
// are to be written, the rest is given and may be changed.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/optim_rule.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// --- the norm ---

// partials[k] = the sum of the squares of the gradients from k * kNormChunk on, kNormChunk of them
// or what is left; in f64. Block k has chunk k.
__global__ void __launch_bounds__(kThreads)
    chunk_squares(double* partials, const float* grad, i64 n) {
  // Yours. block_reduce(v, Plus()) gives every thread of the block the sum.
}

void norm(const GradNormArgs& a, const Launch& l) {
  launch<chunk_squares>(grid_of(l, norm_chunks(a.n), kThreads), a.partials,
                        static_cast<const float*>(a.grad), a.n);
}
const char* why_not_norm(const GradNormArgs& a) {
  return a.dtype == DType::f32 ? nullptr : "other dtypes than f32";
}

// --- the factor ---

// norm = sqrt(sum of partials), factor = min(1, max_norm / (norm + 1e-6)), 1 for max_norm 0; a NaN
// stays one. One block.
__global__ void __launch_bounds__(kThreads)
    decide(double* norm, double* factor, const double* partials, i64 count, double max_norm) {
  // Yours.
}

void factor(const StepDecideArgs& a, const Launch& l) {
  launch<decide>(grid_of(l, 1, kThreads), a.norm, a.factor, a.partials, a.count, a.max_norm);
}
const char* why_not_factor(const StepDecideArgs& a) {
  return a.step || a.scaler ? "a TrainStep's own block, or loss scaling" : nullptr;
}

// --- Adam ---

// All parameters of a model lie in one arena, so that this is one launch, however many there are.
struct Adam {
  float *param, *m, *v;
  const float* grad;
  i64 n;
  const OptimBlock* block;    // rate, betas, corrections: on the device
  const double* grad_factor;  // on the device, or null: 1
  StepFlags flags;            // flags.skip(), on the device: this step does nothing
  template <class F>
  void visit_pointers(F&& f) const {
    f(param), f(m), f(v), f(grad), f(block), f(grad_factor);
    for (const i32* flag : flags.flag) f(flag);
  }
};

// Thread i has element i. The scalars are in a.block->f32 (RuleScalars, optim_step.h): decay,
// one_minus_beta1, beta2, one_minus_beta2, step_size, bias2_scale, eps.
__global__ void __launch_bounds__(kThreads) adam(Adam a) {
  // Yours: g = grad * *grad_factor; nothing at all while a.flags.skip().
}

void step(const AdamwStepArgs& a, const Launch& l) {
  launch<adam>(grid_of(l, ceil_div(a.n, kThreads), kThreads),
               Adam{static_cast<float*>(a.param), static_cast<float*>(a.state[0]),
                    static_cast<float*>(a.state[1]), static_cast<const float*>(a.grad), a.n,
                    a.block, a.grad_factor, a.flags});
}
const char* why_not_step(const AdamwStepArgs& a) {
  if (a.dtype != DType::f32) return "other dtypes than f32";
  if (a.state[2]) return "amsgrad";
  return a.half || a.cohorts ? "copies of 16 bits, or parameters that missed steps" : nullptr;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, grad_norm, GradNormArgs,
            {.name = "mine", .why_not = why_not_norm, .launch = norm});
WT_VARIANTS(WT_DEVICE_NS, step_decide, StepDecideArgs,
            {.name = "mine", .why_not = why_not_factor, .launch = factor});
WT_VARIANTS(WT_DEVICE_NS, adamw_step, AdamwStepArgs,
            {.name = "mine", .why_not = why_not_step, .launch = step});

}  // namespace wt
