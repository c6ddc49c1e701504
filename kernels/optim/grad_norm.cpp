// Gradient norms and the step's decision on the cpu.
#include "warptape/kernels/grad_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/optim/grad_norm_cpu.h"

namespace wt {
namespace {

template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "gradients must be f32 or f64";
}

template <class T>
double sum_of_squares(const T* g, i64 n) {
  double s = 0;
  for (i64 i = 0; i < n; ++i) s += double(g[i]) * double(g[i]);
  return s;
}

template <class T>
void norm_chunks_of(const GradNormArgs& a) {
  const T* g = static_cast<const T*>(a.grad);
  for (i64 k = 0, i = 0; i < a.n; ++k, i += kNormChunk)
    a.partials[k] = sum_of_squares(g + i, std::min(kNormChunk, a.n - i));
}
void norm_reference(const GradNormArgs& a, const Launch&) {
  a.dtype == DType::f32 ? norm_chunks_of<float>(a) : norm_chunks_of<double>(a);
}

void decide_reference(const StepDecideArgs& a, const Launch&) {
  double s = 0;
  for (i64 i = 0; i < a.count; ++i) s += a.partials[i];
  detail::decide(a, a.partials ? std::sqrt(s) : std::numeric_limits<double>::quiet_NaN());
}

void scale_reference(const GradScaleArgs& a, const Launch&) {
  const auto scale = [&]<class T>(T* x) {
    const T f = T(*a.factor);
    for (i64 i = 0; i < a.n; ++i) x[i] *= f;
  };
  a.dtype == DType::f32 ? scale(static_cast<float*>(a.x)) : scale(static_cast<double*>(a.x));
}

void loss_add_reference(const LossAddArgs& a, const Launch&) { detail::add_loss(a); }

}  // namespace

WT_VARIANTS(cpu, grad_norm, GradNormArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = grad_norm_why_not,
                        .launch = grad_norm_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = norm_reference});
WT_VARIANTS(cpu, step_decide, StepDecideArgs, {.name = "reference", .launch = decide_reference});
WT_VARIANTS(cpu, grad_scale, GradScaleArgs,
            {.name = "reference", .why_not = not_f32_or_f64, .launch = scale_reference});
WT_VARIANTS(cpu, loss_add, LossAddArgs, {.name = "reference", .launch = loss_add_reference});

}  // namespace wt
