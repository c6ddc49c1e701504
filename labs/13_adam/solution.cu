// AdamW over all parameters at once, clipped by a norm that the host never sees.
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

// A block has a chunk. In f64: a million squares of f32 lose digits that clipping then lacks, and
// an f32 square overflows from 1.8e19 on.
__global__ void __launch_bounds__(kThreads)
    chunk_squares(double* partials, const float* grad, i64 n) {
  const i64 first = i64(blockIdx.x) * kNormChunk;
  const i64 end = first + kNormChunk < n ? first + kNormChunk : n;
  double sum = 0;
  for (i64 i = first + threadIdx.x; i < end; i += kThreads)
    sum += double(grad[i]) * double(grad[i]);
  sum = block_reduce(sum, Plus());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

void norm(const GradNormArgs& a, const Launch& l) {
  launch<chunk_squares>(grid_of(l, norm_chunks(a.n), kThreads), a.partials,
                        static_cast<const float*>(a.grad), a.n);
}
const char* why_not_norm(const GradNormArgs& a) {
  return a.dtype == DType::f32 ? nullptr : "other dtypes than f32";
}

// --- the factor ---

// Where the host would divide, and wait for the norm to come: the factor stays on the device.
__global__ void __launch_bounds__(kThreads)
    decide(double* norm, double* factor, const double* partials, i64 count, double max_norm) {
  double sum = 0;
  for (i64 i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = block_reduce(sum, Plus());
  if (threadIdx.x) return;
  const double all = sqrt(sum), clip = max_norm / (all + 1e-6);
  *norm = all;
  // A NaN has to stay one: it compares false.
  *factor = max_norm == 0 || clip > 1 ? 1 : clip;
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

// A thread has kEach elements, so that what all of them multiply by is read once for all of these.
constexpr int kEach = 8;
__global__ void __launch_bounds__(kThreads) adam(Adam a) {
  if (a.flags.skip()) return;
  const RuleScalars<float>& s = a.block->f32;
  // In registers: the compiler cannot know that the stores below leave the block alone.
  const float decay = s.decay, eps = s.eps, one_minus_beta1 = s.one_minus_beta1,
              one_minus_beta2 = s.one_minus_beta2, beta2 = s.beta2, step_size = s.step_size,
              bias2_scale = s.bias2_scale;
  const float factor = a.grad_factor ? float(*a.grad_factor) : 1;
  for (int k = 0; k < kEach; ++k) {
    const i64 i = (i64(blockIdx.x) * kEach + k) * kThreads + threadIdx.x;
    if (i >= a.n) return;
    const float g = a.grad[i] * factor, m0 = a.m[i];
    const float m = m0 + one_minus_beta1 * (g - m0);
    const float v = beta2 * a.v[i] + one_minus_beta2 * g * g;
    a.m[i] = m, a.v[i] = v;
    a.param[i] = a.param[i] * decay - step_size * m / (sqrtf(v) * bias2_scale + eps);
  }
}

void step(const AdamwStepArgs& a, const Launch& l) {
  launch<adam>(grid_of(l, ceil_div(a.n, kThreads * kEach), kThreads),
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
