// Optimizer steps on the cpu.
#include "warptape/kernels/optim_step.h"

#include <cmath>
#include <cstring>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

constexpr auto square_root = [](const auto& x, auto& y) { y = std::sqrt(x); };

template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "parameters must be f32 or f64";
}

template <class T>
void sgd_loop(const SgdStepArgs& a, i64 begin, i64 end) {
  const detail::SgdScalars<T> s(a);
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  T* buffer = static_cast<T*>(a.momentum);
  for (i64 i = begin; i < end; ++i)
    if (buffer)
      detail::sgd_update(p[i], g[i], buffer[i], s);
    else
      detail::sgd_update(p[i], g[i], s);
}

template <class T>
void adamw_loop(const AdamwStepArgs& a, i64 begin, i64 end) {
  const detail::AdamwScalars<T> s(a);
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  T *m = static_cast<T*>(a.m), *v = static_cast<T*>(a.v);
  for (i64 i = begin; i < end; ++i) detail::adamw_update(p[i], g[i], m[i], v[i], s, square_root);
}

void sgd_reference(const SgdStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  a.dtype == DType::f32 ? sgd_loop<float>(a, 0, a.n) : sgd_loop<double>(a, 0, a.n);
}
void adamw_reference(const AdamwStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  a.dtype == DType::f32 ? adamw_loop<float>(a, 0, a.n) : adamw_loop<double>(a, 0, a.n);
}

#if WT_X86
template <class Args>
const char* no_avx2(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

WT_TARGET_AVX2 void sgd_piece(const SgdStepArgs& a, i64 begin, i64 end) {
  const detail::SgdScalars<float> s(a);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float* buffer = static_cast<float*>(a.momentum);
  const i64 whole = begin + (end - begin) / 8 * 8;
  if (buffer) {
    for (i64 i = begin; i < whole; i += 8) {
      f32x8 param = load8(p + i), m = load8(buffer + i);
      detail::sgd_update(param, load8(g + i), m, s);
      store8(p + i, param);
      store8(buffer + i, m);
    }
  } else {
    for (i64 i = begin; i < whole; i += 8) {
      f32x8 param = load8(p + i);
      detail::sgd_update(param, load8(g + i), s);
      store8(p + i, param);
    }
  }
  sgd_loop<float>(a, whole, end);
}
void sgd_avx2(const SgdStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { sgd_piece(a, begin, end); });
}

WT_TARGET_AVX2 void adamw_piece(const AdamwStepArgs& a, i64 begin, i64 end) {
  const detail::AdamwScalars<float> s(a);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float *m = static_cast<float*>(a.m), *v = static_cast<float*>(a.v);
  const i64 whole = begin + (end - begin) / 8 * 8;
  for (i64 i = begin; i < whole; i += 8) {
    f32x8 param = load8(p + i), first = load8(m + i), second = load8(v + i);
    detail::adamw_update(
        param, load8(g + i), first, second, s,
        [](const f32x8& x, f32x8& y)
            __attribute__((target("avx2,fma,f16c"))) { y = f32x8(_mm256_sqrt_ps(__m256(x))); });
    store8(p + i, param);
    store8(m + i, first);
    store8(v + i, second);
  }
  adamw_loop<float>(a, whole, end);
}
void adamw_avx2(const AdamwStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { adamw_piece(a, begin, end); });
}
#endif

void advance_reference(const StepAdvanceArgs& a, const Launch&) { detail::advance(a, square_root); }
void restore_reference(const StepRestoreArgs& a, const Launch&) {
  if (a.flags.skip()) std::memcpy(a.to, a.from, size_t(a.size));
}

}  // namespace

WT_VARIANTS(cpu, sgd_step, SgdStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2, .launch = sgd_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = sgd_reference});
WT_VARIANTS(cpu, adamw_step, AdamwStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2, .launch = adamw_avx2)  //
            {.name = "reference", .why_not = not_f32_or_f64, .launch = adamw_reference});
WT_VARIANTS(cpu, step_advance, StepAdvanceArgs, {.name = "reference", .launch = advance_reference});
WT_VARIANTS(cpu, step_restore, StepRestoreArgs, {.name = "reference", .launch = restore_reference});

}  // namespace wt
