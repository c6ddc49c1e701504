// The formulas of Adamax, Adadelta and Rprop: more of what is in optim_rule.h, for its kernels.
#pragma once
#include "warptape/kernels/optim_rule.h"

namespace wt {

namespace detail {

template <class T>
struct AdamaxRule {
  using Args = AdamaxStepArgs;
  static constexpr int kStates = 2, kPack = 4;
  T weight_decay, step_size, beta2, one_minus_beta1, eps, factor;
  WT_HD WT_HOT explicit AdamaxRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay),
        step_size(s.step_size),
        beta2(s.beta2),
        one_minus_beta1(s.one_minus_beta1),
        eps(s.eps),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root) const {
    const V g = grad * factor + weight_decay * param;
    const V zero = V{}, size = (g < zero ? zero - g : g) + eps;
    state[0] += one_minus_beta1 * (g - state[0]);
    const V kept = beta2 * state[1];
    const V largest = kept > size ? kept : size;
    state[1] = kept == kept ? largest : kept;  // a state of NaN is seen
    param -= step_size * state[0] / state[1];
  }
};

template <class T>
struct AdadeltaRule {
  using Args = AdadeltaStepArgs;
  static constexpr int kStates = 2, kPack = 4;
  T weight_decay, rate, alpha, one_minus_alpha, eps, factor;
  WT_HD WT_HOT explicit AdadeltaRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay),
        rate(s.rate),
        alpha(s.alpha),
        one_minus_alpha(s.one_minus_alpha),
        eps(s.eps),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    const V g = grad * factor + weight_decay * param;
    state[0] = alpha * state[0] + one_minus_alpha * g * g;
    const V squares = state[0] + eps, deltas = state[1] + eps;
    V under, over;
    root(squares, under);
    root(deltas, over);
    const V delta = over / under * g;
    state[1] = alpha * state[1] + one_minus_alpha * delta * delta;
    param -= rate * delta;
  }
};

template <class T>
struct RpropRule {
  using Args = RpropStepArgs;
  static constexpr int kStates = 2, kPack = 4;
  T eta_minus, eta_plus, least, most, factor;
  WT_HD WT_HOT explicit RpropRule(const Args& a, const RuleScalars<T>&)
      : eta_minus(T(a.eta_minus)),
        eta_plus(T(a.eta_plus)),
        least(T(a.least)),
        most(T(a.most)),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root) const {
    const V zero = V{}, lowest = zero + least, highest = zero + most;
    V g = grad * factor;
    V& step = state[1];
    const V agree = g * state[0];
    const V smaller = step * eta_minus, larger = step * eta_plus;
    const V not_larger = agree < zero ? smaller : step;
    step = agree > zero ? larger : not_larger;
    step = step < lowest ? lowest : step;
    step = step > highest ? highest : step;
    g = agree < zero ? zero : g;
    const V back = zero - step;
    const V below = g < zero ? back : zero;
    param -= g > zero ? step : below;
    state[0] = g;
  }
};

}  // namespace detail
}  // namespace wt
