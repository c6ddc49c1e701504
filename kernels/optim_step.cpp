// Optimizer steps on the cpu.
#include "warptape/kernels/optim_step.h"

#include <cmath>
#include <cstring>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/optim_step.h"

namespace wt {
namespace {

constexpr auto square_root = [](const auto& x, auto& y) { y = std::sqrt(x); };

template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "parameters must be f32 or f64";
}

template <class T>
void sgd_loop(const SgdStepArgs& a) {
  const detail::SgdScalars<T> s(a);
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  T* buffer = static_cast<T*>(a.momentum);
  for (i64 i = 0; i < a.n; ++i)
    if (buffer)
      detail::sgd_update(p[i], g[i], buffer[i], s);
    else
      detail::sgd_update(p[i], g[i], s);
}

template <class T>
void adamw_loop(const AdamwStepArgs& a) {
  const detail::AdamwScalars<T> s(a);
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  T *m = static_cast<T*>(a.m), *v = static_cast<T*>(a.v);
  for (i64 i = 0; i < a.n; ++i) detail::adamw_update(p[i], g[i], m[i], v[i], s, square_root);
}

void sgd_reference(const SgdStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  a.dtype == DType::f32 ? sgd_loop<float>(a) : sgd_loop<double>(a);
}
void adamw_reference(const AdamwStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  a.dtype == DType::f32 ? adamw_loop<float>(a) : adamw_loop<double>(a);
}

void advance_reference(const StepAdvanceArgs& a, const Launch&) { detail::advance(a, square_root); }
void restore_reference(const StepRestoreArgs& a, const Launch&) {
  if (a.flags.skip()) std::memcpy(a.to, a.from, size_t(a.size));
}

}  // namespace

WT_VARIANTS(cpu, sgd_step, SgdStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = sgd_step_why_not,
                        .launch = sgd_step_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = sgd_reference});
WT_VARIANTS(cpu, adamw_step, AdamwStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adamw_step_why_not,
                        .launch = adamw_step_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = adamw_reference});
WT_VARIANTS(cpu, step_advance, StepAdvanceArgs, {.name = "reference", .launch = advance_reference});
WT_VARIANTS(cpu, step_restore, StepRestoreArgs, {.name = "reference", .launch = restore_reference});

}  // namespace wt
