// Optimizer steps over arenas, and the average of the weights. All are elementwise with up to three
// states, so they share arguments, loops and kernels; a rule is its scalars and one formula,
// written once for numbers and vectors.
#pragma once
#include "warptape/kernels/optim_step.h"

namespace wt {

inline constexpr int kRuleStates = 3;

// f32 or f64, n elements each, no overlap. Nothing is written while flags.skip(), half included.
struct RuleArgs {
  void* param = nullptr;
  const void* grad = nullptr;
  void* state[kRuleStates] = {};  // in the order that the rule's comment lists; null: none
  i64 n = 0;
  DType dtype = DType::f32;
  i32 n_cohorts = 0;
  const OptimBlock* block = nullptr;
  const double* grad_factor = nullptr;  // null: 1
  StepFlags flags{};
  // The new parameters rounded to f16 or bf16, for operators that want them so: written where they
  // are in registers, instead of by a cast that reads them again. f32 parameters only; null: none.
  void* half = nullptr;
  DType half_dtype = DType::f16;
  u16 begin_high = 0;  // of begin()
  u32 begin_low = 0;
  // Where parameters have missed steps: the n_cohorts cohorts of the elements, which have the
  // scalars in the block's place. They begin and end at parameters, which lie at multiples of 256
  // bytes. Null: all are the block's. The numbers above lie where they take no room: above 128
  // bytes of arguments nvcc 13 makes other code of the kernels, with up to 15 % more instructions.
  const Cohort* cohorts = nullptr;

  // Where element 0 is in its arena, in elements.
  WT_HD WT_HOT i64 begin() const { return i64(begin_high) << 32 | i64(begin_low); }
  void set_begin(i64 element) {
    begin_high = u16(element >> 32);
    begin_low = u32(element);
  }
  int states() const {
    return (state[0] != nullptr) + (state[1] != nullptr) + (state[2] != nullptr);
  }
  i64 bytes() const { return n * (item_size(dtype) * (3 + 2 * states()) + (half ? 2 : 0)); }
};

// Stochastic gradient descent, state momentum (or null):
//   g = grad * grad_factor + weight_decay * param
//   momentum = block.momentum * momentum + (applied > 0 ? 1 - dampening : 1) * g
//   param -= rate * (nesterov ? g + block.momentum * momentum : momentum)
// without the buffer: param -= rate * g.
struct SgdStepArgs : RuleArgs {
  bool nesterov = false;
  i64 flops() const { return n * (states() ? 6 : 4); }
};
static_assert(sizeof(SgdStepArgs) <= 128);
WT_CONTRACT(sgd_step, SgdStepArgs);

// Adam with decoupled weight decay, states m, v and, for amsgrad, the largest v so far (or null),
// which then takes v's place under the root:
//   g = grad * grad_factor; param *= 1 - rate * weight_decay
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g
//   param -= rate / bias1 * m / (sqrt(v) / bias2_sqrt + eps)
struct AdamwStepArgs : RuleArgs {
  i64 flops() const { return n * 14; }
};
WT_CONTRACT(adamw_step, AdamwStepArgs);

// Adam, states as of adamw_step. The decay is part of the gradient:
//   g = grad * grad_factor + weight_decay * param
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g
//   param -= rate / bias1 * m / (sqrt(v) / bias2_sqrt + eps)
struct AdamStepArgs : RuleArgs {
  i64 flops() const { return n * 15; }
};
WT_CONTRACT(adam_step, AdamStepArgs);

// Adagrad, state sum:
//   g = grad * grad_factor + weight_decay * param; sum += g * g
//   param -= rate / (1 + applied * lr_decay) * g / (sqrt(sum) + eps)
struct AdagradStepArgs : RuleArgs {
  i64 flops() const { return n * 8; }
};
WT_CONTRACT(adagrad_step, AdagradStepArgs);

// RMSprop, states square_avg, momentum (or null), grad_avg (or null: not centered):
//   g = grad * grad_factor + weight_decay * param
//   square_avg = alpha * square_avg + (1 - alpha) * g * g; grad_avg += (1 - alpha) * (g - grad_avg)
//   step = g / (sqrt(square_avg - grad_avg * grad_avg) + eps)
//   momentum = block.momentum * momentum + step; param -= rate * momentum
// without the buffer: param -= rate * step. A variance that rounds below zero counts as zero.
struct RmspropStepArgs : RuleArgs {
  i64 flops() const { return n * (8 + 2 * states()); }
};
WT_CONTRACT(rmsprop_step, RmspropStepArgs);

// Lion (Chen et al. 2023, algorithm 2), state m:
//   g = grad * grad_factor; c = beta1 * m + (1 - beta1) * g
//   param -= rate * (sign(c) + weight_decay * param); m = beta2 * m + (1 - beta2) * g
struct LionStepArgs : RuleArgs {
  i64 flops() const { return n * 11; }
};
WT_CONTRACT(lion_step, LionStepArgs);

// NAdam (Dozat 2016), states m and v. `decoupled`: the decay is beside the step, as in adamw_step.
//   g = grad * grad_factor + weight_decay * param
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g
//   mu_product' = mu_product * mu
//   param -= rate * ((1 - mu) / (1 - mu_product') * g + mu_next / (1 - mu_product' * mu_next) * m)
//            / (sqrt(v) / bias2_sqrt + eps)
struct NadamStepArgs : RuleArgs {
  bool decoupled = false;
  i64 flops() const { return n * 18; }
};
WT_CONTRACT(nadam_step, NadamStepArgs);

// RAdam (Liu et al. 2020), states m and v. `decoupled` as in nadam_step.
//   g = grad * grad_factor + weight_decay * param
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g
//   param -= rate / bias1 * m * (rectify > 0 ? rectify / (sqrt(v) + eps) : 1)
struct RadamStepArgs : RuleArgs {
  bool decoupled = false;
  i64 flops() const { return n * 15; }
};
WT_CONTRACT(radam_step, RadamStepArgs);

// Adamax (Kingma and Ba 2015, section 7.1), states m and u:
//   g = grad * grad_factor + weight_decay * param
//   m += (1 - beta1) * (g - m); u = max(beta2 * u, |g| + eps); param -= rate / bias1 * m / u
struct AdamaxStepArgs : RuleArgs {
  i64 flops() const { return n * 10; }
};
WT_CONTRACT(adamax_step, AdamaxStepArgs);

// Adadelta (Zeiler 2012), states square_avg and acc_delta:
//   g = grad * grad_factor + weight_decay * param
//   square_avg = alpha * square_avg + (1 - alpha) * g * g
//   delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
//   acc_delta = alpha * acc_delta + (1 - alpha) * delta * delta; param -= rate * delta
struct AdadeltaStepArgs : RuleArgs {
  i64 flops() const { return n * 18; }
};
WT_CONTRACT(adadelta_step, AdadeltaStepArgs);

// Rprop (Riedmiller and Braun 1993) without the step back, states prev and step_size:
//   g = grad * grad_factor
//   step_size *= eta_plus where g * prev > 0, eta_minus where it is below 0, within [least, most]
//   g = 0 where g * prev < 0; param -= sign(g) * step_size; prev = g
struct RpropStepArgs : RuleArgs {
  double eta_minus = 0.5, eta_plus = 1.2, least = 1e-6, most = 50;
  i64 flops() const { return n * 9; }
};
WT_CONTRACT(rprop_step, RpropStepArgs);

// Muon's step (Jordan et al. 2024), states momentum and the direction, which is only read:
//   g = grad * grad_factor; momentum += (1 - block.momentum) * (g - momentum)
//   param = param * (1 - rate * weight_decay) - rate * direction
struct MuonStepArgs : RuleArgs {
  i64 bytes() const { return n * item_size(dtype) * 6; }
  i64 flops() const { return n * 7; }
};
WT_CONTRACT(muon_step, MuonStepArgs);

// The average of the weights: `param` is the average and `grad` the weights, no states:
//   param += (1 - ema_decay) * (grad - param)
struct EmaStepArgs : RuleArgs {
  i64 flops() const { return n * 3; }
};
WT_CONTRACT(ema_step, EmaStepArgs);

// --- the formulas, for the kernels of every device ---
// A rule is made of its arguments and of the block's scalars (RuleScalars), which only need
// loading. V is T or a vector of T; root(x, y) makes y the square root of x. kPack: elements that a
// thread of the vectorized rung works on. kWritten: of the kStates states the first ones that
// change; all, where it is not said.
namespace detail {

template <class Rule>
constexpr int written_states() {
  if constexpr (requires { Rule::kWritten; })
    return Rule::kWritten;
  else
    return Rule::kStates;
}

// Which of the cohorts element i is in.
WT_HD WT_HOT i64 cohort_of(const RuleArgs& a, i64 i) {
  i64 low = 0, high = a.n_cohorts - 1;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (a.begin() + i < a.cohorts[middle].end)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
// f(begin, end, scalars) for the parts of [begin, end) that have the same ones.
template <class T, class F>
WT_HOT void for_scalars(const RuleArgs& a, i64 begin, i64 end, const F& f) {
  if (!a.cohorts) return f(begin, end, scalars_of<T>(*a.block));
  for (i64 k = cohort_of(a, begin); begin < end; ++k) {
    const i64 last = a.cohorts[k].end - a.begin(), next = last < end ? last : end;
    f(begin, next, scalars_of<T>(a.cohorts[k]));
    begin = next;
  }
}

template <class T>
WT_HD WT_HOT T factor_of(const RuleArgs& a) {
  return T(a.grad_factor ? *a.grad_factor : 1);
}

template <class T>
struct SgdRule {
  using Args = SgdStepArgs;
  static constexpr int kStates = 1, kPack = 8;
  T weight_decay, rate, momentum, keep, factor;
  bool has_momentum, nesterov;
  WT_HD WT_HOT explicit SgdRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay),
        rate(s.rate),
        momentum(s.momentum),
        keep(s.keep),
        factor(factor_of<T>(a)),
        has_momentum(a.state[0] != nullptr),
        nesterov(a.nesterov) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root) const {
    const V g = grad * factor + weight_decay * param;
    V step = g;
    if (has_momentum) {
      V& buffer = state[0];
      buffer = momentum * buffer + keep * g;
      step = nesterov ? g + momentum * buffer : buffer;
    }
    param -= rate * step;
  }
};

// What Adam and AdamW have in common: the averages of g and of its square, and the step they give.
template <class T>
struct AdamMoments {
  T step_size, beta2, one_minus_beta1, one_minus_beta2, bias2_scale, eps, factor;
  bool has_largest;
  template <class Args>
  WT_HD WT_HOT explicit AdamMoments(const Args& a, const RuleScalars<T>& s)
      : step_size(s.step_size),
        beta2(s.beta2),
        one_minus_beta1(s.one_minus_beta1),
        one_minus_beta2(s.one_minus_beta2),
        bias2_scale(s.bias2_scale),
        eps(s.eps),
        factor(factor_of<T>(a)),
        has_largest(a.state[2] != nullptr) {}
  template <class V, class Root>
  WT_HD WT_HOT void move(const V& g, V* state, Root root, V& step) const {
    V &m = state[0], &v = state[1];
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    V under = v;
    if (has_largest) {
      V& largest = state[2];
      largest = largest > v ? largest : v;  // a v of NaN is seen
      under = largest;
    }
    V denominator;
    root(under, denominator);
    denominator = denominator * bias2_scale + eps;
    step = step_size * m / denominator;
  }
};

template <class T>
struct AdamwRule {
  using Args = AdamwStepArgs;
  static constexpr int kStates = 3, kPack = 4;
  T decay;
  AdamMoments<T> moments;
  WT_HD WT_HOT explicit AdamwRule(const Args& a, const RuleScalars<T>& s)
      : decay(s.decay), moments(a, s) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    V step;
    moments.move(grad * moments.factor, state, root, step);
    param = param * decay - step;
  }
};

template <class T>
struct AdamRule {
  using Args = AdamStepArgs;
  static constexpr int kStates = 3, kPack = 4;
  T weight_decay;
  AdamMoments<T> moments;
  WT_HD WT_HOT explicit AdamRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay), moments(a, s) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    V step;
    moments.move(grad * moments.factor + weight_decay * param, state, root, step);
    param -= step;
  }
};

template <class T>
struct AdagradRule {
  using Args = AdagradStepArgs;
  static constexpr int kStates = 1, kPack = 4;
  T weight_decay, step_size, eps, factor;
  WT_HD WT_HOT explicit AdagradRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay),
        step_size(s.adagrad_rate),
        eps(s.eps),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    const V g = grad * factor + weight_decay * param;
    state[0] += g * g;
    V denominator;
    root(state[0], denominator);
    denominator = denominator + eps;
    param -= step_size * g / denominator;
  }
};

template <class T>
struct RmspropRule {
  using Args = RmspropStepArgs;
  static constexpr int kStates = 3, kPack = 4;
  T weight_decay, rate, alpha, one_minus_alpha, momentum, eps, factor;
  bool has_momentum, centered;
  WT_HD WT_HOT explicit RmspropRule(const Args& a, const RuleScalars<T>& s)
      : weight_decay(s.weight_decay),
        rate(s.rate),
        alpha(s.alpha),
        one_minus_alpha(s.one_minus_alpha),
        momentum(s.momentum),
        eps(s.eps),
        factor(factor_of<T>(a)),
        has_momentum(a.state[1] != nullptr),
        centered(a.state[2] != nullptr) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    const V g = grad * factor + weight_decay * param;
    const V zero = V{};
    state[0] = alpha * state[0] + one_minus_alpha * g * g;
    V variance = state[0];
    if (centered) {
      state[2] += one_minus_alpha * (g - state[2]);
      variance = variance - state[2] * state[2];
      variance = variance < zero ? zero : variance;
    }
    V step;
    root(variance, step);
    step = g / (step + eps);
    if (has_momentum) {
      state[1] = momentum * state[1] + step;
      step = state[1];
    }
    param -= rate * step;
  }
};

template <class T>
struct LionRule {
  using Args = LionStepArgs;
  static constexpr int kStates = 1, kPack = 4;
  T decay, rate, beta1, beta2, one_minus_beta1, one_minus_beta2, factor;
  WT_HD WT_HOT explicit LionRule(const Args& a, const RuleScalars<T>& s)
      : decay(s.decay),
        rate(s.rate),
        beta1(s.beta1),
        beta2(s.beta2),
        one_minus_beta1(s.one_minus_beta1),
        one_minus_beta2(s.one_minus_beta2),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root) const {
    const V g = grad * factor;
    const V c = beta1 * state[0] + one_minus_beta1 * g;
    const V zero = V{}, up = zero + rate, down = zero - rate;
    const V below = c < zero ? down : zero;
    const V step = c > zero ? up : below;
    param = param * decay - step;
    state[0] = beta2 * state[0] + one_minus_beta2 * g;
  }
};

// A decay of one of two kinds; the other one's scalar leaves the parameter as it is.
template <class T>
struct EitherDecay {
  T in_gradient, beside;
  template <class Args>
  WT_HD WT_HOT explicit EitherDecay(const Args& a, const RuleScalars<T>& s)
      : in_gradient(a.decoupled ? T(0) : s.weight_decay), beside(a.decoupled ? s.decay : T(1)) {}
};

template <class T>
struct NadamRule {
  using Args = NadamStepArgs;
  static constexpr int kStates = 2, kPack = 4;
  EitherDecay<T> decay;
  T gradient_rate, mean_rate, beta2, one_minus_beta1, one_minus_beta2, bias2_scale, eps, factor;
  WT_HD WT_HOT explicit NadamRule(const Args& a, const RuleScalars<T>& s)
      : decay(a, s),
        gradient_rate(s.gradient_rate),
        mean_rate(s.mean_rate),
        beta2(s.beta2),
        one_minus_beta1(s.one_minus_beta1),
        one_minus_beta2(s.one_minus_beta2),
        bias2_scale(s.bias2_scale),
        eps(s.eps),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    const V g = grad * factor + decay.in_gradient * param;
    V &m = state[0], &v = state[1];
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    V denominator;
    root(v, denominator);
    denominator = denominator * bias2_scale + eps;
    const V step = gradient_rate * g + mean_rate * m;
    param = param * decay.beside - step / denominator;
  }
};

template <class T>
struct RadamRule {
  using Args = RadamStepArgs;
  static constexpr int kStates = 2, kPack = 4;
  EitherDecay<T> decay;
  T step_size, beta2, one_minus_beta1, one_minus_beta2, rectify, eps, factor;
  WT_HD WT_HOT explicit RadamRule(const Args& a, const RuleScalars<T>& s)
      : decay(a, s),
        step_size(s.step_size),
        beta2(s.beta2),
        one_minus_beta1(s.one_minus_beta1),
        one_minus_beta2(s.one_minus_beta2),
        rectify(s.rectify),
        eps(s.eps),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root root) const {
    const V g = grad * factor + decay.in_gradient * param;
    V &m = state[0], &v = state[1];
    m += one_minus_beta1 * (g - m);
    v = beta2 * v + one_minus_beta2 * g * g;
    V step = step_size * m;
    if (rectify > 0) {
      V denominator;
      root(v, denominator);
      step = step * rectify / (denominator + eps);
    }
    param = param * decay.beside - step;
  }
};

template <class T>
struct MuonRule {
  using Args = MuonStepArgs;
  static constexpr int kStates = 2, kWritten = 1, kPack = 4;
  T decay, rate, one_minus_momentum, factor;
  WT_HD WT_HOT explicit MuonRule(const Args& a, const RuleScalars<T>& s)
      : decay(s.decay),
        rate(s.rate),
        one_minus_momentum(s.one_minus_momentum),
        factor(factor_of<T>(a)) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V* state, Root) const {
    V &momentum = state[0], &direction = state[1];
    momentum += one_minus_momentum * (grad * factor - momentum);
    param = param * decay - rate * direction;
  }
};

template <class T>
struct EmaRule {
  using Args = EmaStepArgs;
  static constexpr int kStates = 0, kPack = 4;
  T weight;
  WT_HD WT_HOT explicit EmaRule(const Args&, const RuleScalars<T>& s)
      : weight(s.one_minus_ema_decay) {}
  template <class V, class Root>
  WT_HD WT_HOT void update(V& param, const V& grad, V*, Root) const {
    param += weight * (grad - param);
  }
};

}  // namespace detail
}  // namespace wt
