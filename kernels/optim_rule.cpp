// The rules of optim_rule.h on the cpu.
#include "warptape/kernels/optim_rule.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

constexpr auto square_root = [](const auto& x, auto& y) { y = std::sqrt(x); };

const char* not_f32_or_f64(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "parameters must be f32 or f64";
}
template <class Args>
const char* refuse(const Args& a) {
  return not_f32_or_f64(a.dtype);
}

template <template <class> class Rule, class T>
void loop(const typename Rule<T>::Args& a, i64 begin, i64 end) {
  const Rule<T> rule(a);
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  for (i64 i = begin; i < end; ++i) {
    T state[kRuleStates] = {};
    for (int k = 0; k < rule.kStates; ++k)
      if (a.state[k]) state[k] = static_cast<const T*>(a.state[k])[i];
    rule.update(p[i], g[i], state, square_root);
    for (int k = 0; k < rule.kStates; ++k)
      if (a.state[k]) static_cast<T*>(a.state[k])[i] = state[k];
  }
}

template <template <class> class Rule>
void reference(const typename Rule<float>::Args& a, const Launch&) {
  if (a.flags.skip()) return;
  if (a.dtype == DType::f32)
    loop<Rule, float>(a, 0, a.n);
  else
    loop<Rule, double>(a, 0, a.n);
}

#if WT_X86
template <class Args>
const char* no_avx2(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

template <template <class> class Rule>
WT_TARGET_AVX2 void avx2_piece(const typename Rule<float>::Args& a, i64 begin, i64 end) {
  const Rule<float> rule(a);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float* s[kRuleStates];
  for (int k = 0; k < kRuleStates; ++k) s[k] = static_cast<float*>(a.state[k]);
  const i64 whole = begin + (end - begin) / 8 * 8;
  for (i64 i = begin; i < whole; i += 8) {
    f32x8 param = load8(p + i), state[kRuleStates] = {};
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) state[k] = load8(s[k] + i);
    rule.update(
        param, load8(g + i), state,
        [](const f32x8& x, f32x8& y)
            __attribute__((target("avx2,fma,f16c"))) { y = f32x8(_mm256_sqrt_ps(__m256(x))); });
    store8(p + i, param);
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) store8(s[k] + i, state[k]);
  }
  loop<Rule, float>(a, whole, end);
}
template <template <class> class Rule>
void avx2(const typename Rule<float>::Args& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { avx2_piece<Rule>(a, begin, end); });
}
#endif

}  // namespace

WT_VARIANTS(cpu, adam_step, AdamStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2,
                        .launch = avx2<detail::AdamRule>)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdamRule>});
WT_VARIANTS(cpu, adagrad_step, AdagradStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2,
                        .launch = avx2<detail::AdagradRule>)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdagradRule>});
WT_VARIANTS(cpu, rmsprop_step, RmspropStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2,
                        .launch = avx2<detail::RmspropRule>)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::RmspropRule>});
WT_VARIANTS(cpu, lion_step, LionStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2,
                        .launch = avx2<detail::LionRule>)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::LionRule>});
WT_VARIANTS(cpu, ema_step, EmaStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = no_avx2,
                        .launch = avx2<detail::EmaRule>)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::EmaRule>});

}  // namespace wt
