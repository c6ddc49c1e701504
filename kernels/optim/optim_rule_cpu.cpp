// The rules of optim_rule.h, eight parameters at a time, with threads.
#include "warptape/kernels/optim/optim_rule_cpu.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"
#include "warptape/kernels/optim/optim_rule_more.h"

namespace wt {

void write_half(const RuleArgs& a, i64 begin, i64 end) {
  const float* p = static_cast<const float*>(a.param) + begin;
  if (!a.half) return;
  if (a.half_dtype == DType::f16)
    detail::convert_row(static_cast<Half*>(a.half) + begin, p, end - begin);
  else
    detail::convert_row(static_cast<BFloat16*>(a.half) + begin, p, end - begin);
}

#if WT_X86
namespace {

template <class Args>
const char* optim_why_not(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

// How rules take roots: y = sqrt(x).
struct SquareRoot {
  WT_TARGET_AVX2 void operator()(const f32x8& x, f32x8& y) const {
    y = f32x8(_mm256_sqrt_ps(__m256(x)));
  }
  WT_TARGET_AVX2 void operator()(const float& x, float& y) const { y = std::sqrt(x); }
};

template <template <class> class Rule>
WT_TARGET_AVX2 void step_piece(const typename Rule<float>::Args& a, i64 begin, i64 end,
                               const RuleScalars<float>& scalars) {
  const Rule<float> rule(a, scalars);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float* s[kRuleStates];
  for (int k = 0; k < kRuleStates; ++k) s[k] = static_cast<float*>(a.state[k]);
  const i64 whole = begin + (end - begin) / 8 * 8;
  for (i64 i = begin; i < whole; i += 8) {
    f32x8 param = load8(p + i), state[kRuleStates] = {};
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) state[k] = load8(s[k] + i);
    rule.update(param, load8(g + i), state, SquareRoot());
    store8(p + i, param);
    for (int k = 0; k < detail::written_states<Rule<float>>(); ++k)
      if (s[k]) store8(s[k] + i, state[k]);
  }
  for (i64 i = whole; i < end; ++i) {
    float state[kRuleStates] = {};
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) state[k] = s[k][i];
    rule.update(p[i], g[i], state, SquareRoot());
    for (int k = 0; k < detail::written_states<Rule<float>>(); ++k)
      if (s[k]) s[k][i] = state[k];
  }
}
template <template <class> class Rule>
void step_avx2(const typename Rule<float>::Args& a) {
  if (a.flags.skip()) return;
  // The 16-bit copy is made of parameters that are still in the first-level cache.
  const i64 block = a.half ? 2048 : a.n;
  in_pieces(a.n, [&](i64 begin, i64 end) {
    for (i64 i = begin, next; i < end; i = next) {
      next = std::min(end, i + block);
      detail::for_scalars<float>(a, i, next, [&](i64 from, i64 to, const auto& scalars) {
        step_piece<Rule>(a, from, to, scalars);
      });
      write_half(a, i, next);
    }
  });
}

}  // namespace

const char* sgd_step_why_not(const SgdStepArgs& a) { return optim_why_not(a); }
void sgd_step_avx2(const SgdStepArgs& a, const Launch&) { step_avx2<detail::SgdRule>(a); }
const char* adamw_step_why_not(const AdamwStepArgs& a) { return optim_why_not(a); }
void adamw_step_avx2(const AdamwStepArgs& a, const Launch&) { step_avx2<detail::AdamwRule>(a); }
const char* adam_step_why_not(const AdamStepArgs& a) { return optim_why_not(a); }
void adam_step_avx2(const AdamStepArgs& a, const Launch&) { step_avx2<detail::AdamRule>(a); }
const char* adagrad_step_why_not(const AdagradStepArgs& a) { return optim_why_not(a); }
void adagrad_step_avx2(const AdagradStepArgs& a, const Launch&) {
  step_avx2<detail::AdagradRule>(a);
}
const char* rmsprop_step_why_not(const RmspropStepArgs& a) { return optim_why_not(a); }
void rmsprop_step_avx2(const RmspropStepArgs& a, const Launch&) {
  step_avx2<detail::RmspropRule>(a);
}
const char* lion_step_why_not(const LionStepArgs& a) { return optim_why_not(a); }
void lion_step_avx2(const LionStepArgs& a, const Launch&) { step_avx2<detail::LionRule>(a); }
const char* nadam_step_why_not(const NadamStepArgs& a) { return optim_why_not(a); }
void nadam_step_avx2(const NadamStepArgs& a, const Launch&) { step_avx2<detail::NadamRule>(a); }
const char* radam_step_why_not(const RadamStepArgs& a) { return optim_why_not(a); }
void radam_step_avx2(const RadamStepArgs& a, const Launch&) { step_avx2<detail::RadamRule>(a); }
const char* adamax_step_why_not(const AdamaxStepArgs& a) { return optim_why_not(a); }
void adamax_step_avx2(const AdamaxStepArgs& a, const Launch&) { step_avx2<detail::AdamaxRule>(a); }
const char* adadelta_step_why_not(const AdadeltaStepArgs& a) { return optim_why_not(a); }
void adadelta_step_avx2(const AdadeltaStepArgs& a, const Launch&) {
  step_avx2<detail::AdadeltaRule>(a);
}
const char* rprop_step_why_not(const RpropStepArgs& a) { return optim_why_not(a); }
void rprop_step_avx2(const RpropStepArgs& a, const Launch&) { step_avx2<detail::RpropRule>(a); }
const char* muon_step_why_not(const MuonStepArgs& a) { return optim_why_not(a); }
void muon_step_avx2(const MuonStepArgs& a, const Launch&) { step_avx2<detail::MuonRule>(a); }
const char* ema_step_why_not(const EmaStepArgs& a) { return optim_why_not(a); }
void ema_step_avx2(const EmaStepArgs& a, const Launch&) { step_avx2<detail::EmaRule>(a); }
#endif
}  // namespace wt
