// The rules of optim_rule.h on the cpu.
#include "warptape/kernels/optim_rule.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/optim/optim_rule_cpu.h"
#include "warptape/kernels/optim/optim_rule_more.h"

namespace wt {

namespace {

constexpr auto square_root = [](const auto& x, auto& y) { y = std::sqrt(x); };

const char* not_f32_or_f64(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "parameters must be f32 or f64";
}
template <class Args>
const char* refuse(const Args& a) {
  if (a.half && a.dtype != DType::f32) return "a 16-bit copy is written of f32 parameters only";
  return not_f32_or_f64(a.dtype);
}

template <template <class> class Rule, class T>
void loop(const typename Rule<T>::Args& a) {
  T* p = static_cast<T*>(a.param);
  const T* g = static_cast<const T*>(a.grad);
  detail::for_scalars<T>(a, 0, a.n, [&](i64 begin, i64 end, const RuleScalars<T>& scalars) {
    const Rule<T> rule(a, scalars);
    for (i64 i = begin; i < end; ++i) {
      T state[kRuleStates] = {};
      for (int k = 0; k < rule.kStates; ++k)
        if (a.state[k]) state[k] = static_cast<const T*>(a.state[k])[i];
      rule.update(p[i], g[i], state, square_root);
      for (int k = 0; k < detail::written_states<Rule<T>>(); ++k)
        if (a.state[k]) static_cast<T*>(a.state[k])[i] = state[k];
    }
  });
}

template <template <class> class Rule>
void reference(const typename Rule<float>::Args& a, const Launch&) {
  if (a.flags.skip()) return;
  if (a.dtype == DType::f64) return loop<Rule, double>(a);
  loop<Rule, float>(a);
  write_half(a, 0, a.n);
}

}  // namespace

WT_VARIANTS(cpu, sgd_step, SgdStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = sgd_step_why_not,
                        .launch = sgd_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::SgdRule>});
WT_VARIANTS(cpu, adamw_step, AdamwStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adamw_step_why_not,
                        .launch = adamw_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdamwRule>});
WT_VARIANTS(cpu, adam_step, AdamStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adam_step_why_not,
                        .launch = adam_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdamRule>});
WT_VARIANTS(cpu, adagrad_step, AdagradStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adagrad_step_why_not,
                        .launch = adagrad_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdagradRule>});
WT_VARIANTS(cpu, rmsprop_step, RmspropStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = rmsprop_step_why_not,
                        .launch = rmsprop_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::RmspropRule>});
WT_VARIANTS(cpu, lion_step, LionStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = lion_step_why_not,
                        .launch = lion_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::LionRule>});
WT_VARIANTS(cpu, nadam_step, NadamStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = nadam_step_why_not,
                        .launch = nadam_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::NadamRule>});
WT_VARIANTS(cpu, radam_step, RadamStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = radam_step_why_not,
                        .launch = radam_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::RadamRule>});
WT_VARIANTS(cpu, adamax_step, AdamaxStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adamax_step_why_not,
                        .launch = adamax_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdamaxRule>});
WT_VARIANTS(cpu, adadelta_step, AdadeltaStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = adadelta_step_why_not,
                        .launch = adadelta_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::AdadeltaRule>});
WT_VARIANTS(cpu, rprop_step, RpropStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = rprop_step_why_not,
                        .launch = rprop_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::RpropRule>});
WT_VARIANTS(cpu, muon_step, MuonStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = muon_step_why_not,
                        .launch = muon_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::MuonRule>});
WT_VARIANTS(cpu, ema_step, EmaStepArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 10, .why_not = ema_step_why_not,
                        .launch = ema_step_avx2)  //
            {.name = "reference", .why_not = refuse, .launch = reference<detail::EmaRule>});

}  // namespace wt
