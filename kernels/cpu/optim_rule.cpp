// The rules of optim_rule.h, eight parameters at a time, with threads.
#include "warptape/kernels/cpu/optim_rule.h"

#include "warptape/kernels/cpu/optim_vector.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
#if WT_X86
namespace {

// Elements [i, i + 8), as far as they lie below n.
template <class Rule>
WT_AVX2_HOT void update_eight(const Rule& rule, const typename Rule::Args& a, i64 i, i64 n) {
  float* p = static_cast<float*>(a.param);
  f32x8 param = load_until(p, i, n), state[kRuleStates] = {};
  for (int k = 0; k < rule.kStates; ++k)
    if (a.state[k]) state[k] = load_until(static_cast<const float*>(a.state[k]), i, n);
  const f32x8 g = load_until(static_cast<const float*>(a.grad), i, n);
  rule.update(param, g, state, SquareRoot8());
  store_until(p, i, n, param);
  for (int k = 0; k < rule.kStates; ++k)
    if (a.state[k]) store_until(static_cast<float*>(a.state[k]), i, n, state[k]);
}
template <template <class> class Rule>
WT_TARGET_AVX2 void step_piece(const typename Rule<float>::Args& args, i64 begin, i64 end) {
  const typename Rule<float>::Args a = args;  // copies: no store can change them
  const Rule<float> rule(a);
  i64 i = begin;
  for (; i + 8 <= end; i += 8) update_eight(rule, a, i, i + 8);
  if (i < end) update_eight(rule, a, i, end);
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
