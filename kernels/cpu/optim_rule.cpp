// The rules of optim_rule.h, eight parameters at a time, with threads.
#include "warptape/kernels/cpu/optim_rule.h"

#include "warptape/kernels/cpu/optim_vector.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
#if WT_X86
namespace {

template <template <class> class Rule>
WT_TARGET_AVX2 void step_piece(const typename Rule<float>::Args& a, i64 begin, i64 end) {
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
    rule.update(param, load8(g + i), state, SquareRoot());
    store8(p + i, param);
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) store8(s[k] + i, state[k]);
  }
  for (i64 i = whole; i < end; ++i) {
    float state[kRuleStates] = {};
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) state[k] = s[k][i];
    rule.update(p[i], g[i], state, SquareRoot());
    for (int k = 0; k < rule.kStates; ++k)
      if (s[k]) s[k][i] = state[k];
  }
}
template <template <class> class Rule>
void step_avx2(const typename Rule<float>::Args& a) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { step_piece<Rule>(a, begin, end); });
}

}  // namespace

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
const char* ema_step_why_not(const EmaStepArgs& a) { return optim_why_not(a); }
void ema_step_avx2(const EmaStepArgs& a, const Launch&) { step_avx2<detail::EmaRule>(a); }
#endif
}  // namespace wt
