// Gradient norms and the step's decision on the cpu.
#include "warptape/kernels/grad_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

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

#if WT_X86
const char* no_avx2(const GradNormArgs& a) {
  if (a.dtype != DType::f32) return "gradients must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

// Eight sums hide the latency of the additions.
WT_TARGET_AVX2 double sum_of_squares_avx2(const float* g, i64 n) {
  __m256d sums[8];
  for (__m256d& s : sums) s = _mm256_setzero_pd();
  i64 i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 8; ++k) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(g + i + 4 * k));
      sums[k] = _mm256_fmadd_pd(v, v, sums[k]);
    }
  for (int width = 4; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) sums[k] = _mm256_add_pd(sums[k], sums[k + width]);
  double lanes[4];
  _mm256_storeu_pd(lanes, sums[0]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + sum_of_squares(g + i, n - i);
}
void norm_avx2(const GradNormArgs& a, const Launch&) {
  const float* g = static_cast<const float*>(a.grad);
  in_row_pieces(norm_chunks(a.n), kNormChunk, [&](i64 begin, i64 end) {
    for (i64 k = begin, i = begin * kNormChunk; k < end; ++k, i += kNormChunk)
      a.partials[k] = sum_of_squares_avx2(g + i, std::min(kNormChunk, a.n - i));
  });
}
#endif

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
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2, .launch = norm_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = norm_reference});
WT_VARIANTS(cpu, step_decide, StepDecideArgs, {.name = "reference", .launch = decide_reference});
WT_VARIANTS(cpu, grad_scale, GradScaleArgs,
            {.name = "reference", .why_not = not_f32_or_f64, .launch = scale_reference});
WT_VARIANTS(cpu, loss_add, LossAddArgs, {.name = "reference", .launch = loss_add_reference});

}  // namespace wt
