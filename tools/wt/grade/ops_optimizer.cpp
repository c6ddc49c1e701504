// An optimizer's step: the norm of the gradients, the factor that clips them, and AdamW.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

using wt_test::kTermsOfFormula;

// --- the norm ---

std::vector<Plan> grad_norm_plans(Draws& d) {
  std::vector<Plan> all;
  for (const i64 n : {d.odd(1025, 1999), i64{1}, d.odd(3, 31), i64{32}, d.odd(65, 255), i64{0},
                      kNormChunk, kNormChunk + 1, d.odd(2 * kNormChunk, 20000)})
    all.push_back({.sizes = {n}});
  all.push_back({.sizes = {d.odd(8200, 9000)}, .values = Values::whole});
  all.push_back({.sizes = {d.odd(301, 399)}, .values = Values::special});
  add_optional(all, {.dtype = DType::f64, .sizes = {d.odd(65, 255)}});
  add_optional(all, {.sizes = {d.odd(65, 255)}, .lie = Lie::offset});
  return all;
}

Problem make_grad_norm(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan)};
  const i64 n = plan.sizes[0];
  p.operands = {output("partials", DType::f64, {norm_chunks(n)}), input("grad", plan, {n}, d)};
  return p;
}

void solve_grad_norm(Problem& p) {
  Operand& partials = p.operands[0];
  const std::vector<double>& g = p.operands[1].values;
  partials.want.assign(size_t(norm_chunks(i64(g.size()))), 0);
  for (size_t i = 0; i < g.size(); ++i) partials.want[i / size_t(kNormChunk)] += g[i] * g[i];
  partials.bound.clear();
  for (const double sum : partials.want)
    partials.bound.push_back(
        bound_of(partials, DType::f64, kTermsOfFormula + double(kNormChunk), sum, sum));
}

// --- the factor ---
// sizes: how many partial sums. flag: 1: no clipping, 2: a norm that needs none.

std::vector<Plan> step_decide_plans(Draws& d) {
  std::vector<Plan> all;
  for (const i64 n : {d.odd(33, 99), i64{1}, i64{0}, d.odd(3, 31), i64{256}, d.odd(257, 999)})
    for (const int flag : {0, 1, 2})
      all.push_back({.dtype = DType::f64, .sizes = {n}, .flag = flag});
  all.push_back({.dtype = DType::f64, .sizes = {d.odd(33, 99)}, .values = Values::special});
  return all;
}

Problem make_step_decide(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan, plan.flag == 1   ? "max_norm 0"
                                    : plan.flag == 2 ? "max_norm 1e6"
                                                     : "max_norm 1")};
  p.operands = {output("norm", DType::f64, {}), output("factor", DType::f64, {}),
                input("partials", plan, {plan.sizes[0]}, d)};
  for (double& v : p.operands[2].values) v = std::fabs(v);  // sums of squares
  p.data.reals[0] = plan.flag == 1 ? 0 : plan.flag == 2 ? 1e6 : 1;
  return p;
}

void solve_step_decide(Problem& p) {
  double sum = 0;
  for (const double v : p.operands[2].values) sum += v;
  const double norm = std::sqrt(sum), factor = detail::clip_of(norm, p.data.reals[0]);
  const double terms = kTermsOfFormula + double(p.operands[2].values.size());
  Operand &out = p.operands[0], &clip = p.operands[1];
  out.want = {norm}, out.bound = {bound_of(out, DType::f64, terms, norm, norm)};
  clip.want = {factor}, clip.bound = {bound_of(clip, DType::f64, terms, factor, factor)};
}

// --- AdamW ---
// flag: 1: a step that is skipped, 2: no factor and no flags, 4: no step before, 8: amsgrad.

std::vector<Plan> adamw_plans(Draws& d) {
  std::vector<Plan> all;
  for (const i64 n : {d.odd(1025, 1999), i64{1}, d.odd(3, 31), i64{32}, i64{256}, i64{257}, i64{0},
                      d.odd(4097, 5000)})
    all.push_back({.sizes = {n}});
  for (const int flag : {1, 4}) all.push_back({.sizes = {d.odd(257, 999)}, .flag = flag});
  for (const int flag : {2, 8}) add_optional(all, {.sizes = {d.odd(257, 999)}, .flag = flag});
  add_optional(all, {.dtype = DType::f64, .sizes = {d.odd(65, 255)}});
  add_optional(all, {.sizes = {d.odd(65, 255)}, .lie = Lie::offset});
  return all;
}

OptimBlock drawn_block(Draws& d, bool first) {
  OptimBlock b;
  b.lr = d.real(1e-3, 1e-1), b.weight_decay = d.real(0, 0.1);
  b.beta1 = d.real(0.8, 0.95), b.beta2 = d.real(0.95, 0.999), b.eps = 1e-8;
  b.applied = first ? 0 : d.whole(1, 200);
  detail::derive(b, [](double v, double& root) { root = std::sqrt(v); });
  return b;
}
// Its bytes, as an operand.
Operand block_operand(const OptimBlock& b) {
  Operand o{.name = "block", .dtype = DType::u8, .shape = {i64(sizeof b)}};
  std::vector<u8> bytes(sizeof b);
  std::memcpy(bytes.data(), &b, sizeof b);
  o.values.assign(bytes.begin(), bytes.end());
  return o;
}
OptimBlock block_of(const Operand& o) {
  std::vector<u8> bytes(o.values.begin(), o.values.end());
  OptimBlock b;
  std::memcpy(&b, bytes.data(), sizeof b);
  return b;
}

enum { kParam, kFirst, kSecond, kLargest, kGrad, kBlock, kFactor, kSkip };

Problem make_adamw(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(
                plan, str(plan.flag & 1 ? "a step that is skipped" : "",
                          plan.flag & 2 ? "no factor, no flags" : "",
                          plan.flag & 4 ? "the first step" : "", plan.flag & 8 ? "amsgrad" : ""))};
  const Shape s{plan.sizes[0]};
  const auto state = [&](const char* name, bool positive) {
    Operand o = input(name, plan, s, d);
    for (double& v : o.values) v = plan.flag & 4 ? 0 : positive ? std::fabs(v) : v;
    return updated(std::move(o));
  };
  Plan scalar{.dtype = DType::f64};
  Operand factor = input("grad_factor", scalar, {}, d);
  factor.values = {d.real(0.05, 1)};
  Operand skip{.name = "flag", .dtype = DType::i32, .shape = {}};
  skip.values = {plan.flag & 1 ? 1.0 : 0.0};
  p.operands = {updated(input("param", plan, s, d)),
                state("m", false),
                state("v", true),
                plan.flag & 8 ? state("largest v", true) : absent("largest v"),
                input("grad", plan, s, d),
                block_operand(drawn_block(d, plan.flag & 4)),
                plan.flag & 2 ? absent("grad_factor") : factor,
                plan.flag & 2 ? absent("flag") : skip};
  return p;
}

void solve_adamw(Problem& p) {
  const OptimBlock b = block_of(p.operands[kBlock]);
  const Operand& grad = p.operands[kGrad];
  const double factor = p.operands[kFactor].absent ? 1 : p.operands[kFactor].values[0];
  const bool skipped = !p.operands[kSkip].absent && p.operands[kSkip].values[0] != 0;
  const size_t n = grad.values.size();
  for (const int k : {kParam, kFirst, kSecond, kLargest}) {
    p.operands[size_t(k)].want = p.operands[size_t(k)].values;
    p.operands[size_t(k)].bound.assign(p.operands[size_t(k)].values.size(), 0);
  }
  if (skipped) return;
  const auto put = [&](int k, size_t i, double want, double magnitude) {
    Operand& o = p.operands[size_t(k)];
    o.want[i] = want;
    // The block's scalars are rounded once more, to the parameters' dtype.
    o.bound[i] = bound_of(o, o.dtype, 2 * kTermsOfFormula, want, magnitude);
  };
  for (size_t i = 0; i < n; ++i) {
    const double g = grad.values[i] * factor,
                 decayed = p.operands[kParam].values[i] * (1 - b.rate * b.weight_decay);
    const double m0 = p.operands[kFirst].values[i], v0 = p.operands[kSecond].values[i];
    const double m = m0 + (1 - b.beta1) * (g - m0), v = b.beta2 * v0 + (1 - b.beta2) * g * g;
    const double m_size = std::fabs(m0) + (1 - b.beta1) * (std::fabs(g) + std::fabs(m0));
    put(kFirst, i, m, m_size), put(kSecond, i, v, v);
    double under = v;
    if (!p.operands[kLargest].absent) {
      under = std::max(v, p.operands[kLargest].values[i]);
      put(kLargest, i, under, under);
    }
    const double step = b.rate / b.bias1 / (std::sqrt(under) / b.bias2_sqrt + b.eps);
    put(kParam, i, decayed - step * m, std::fabs(p.operands[kParam].values[i]) + step * m_size);
  }
}

}  // namespace

void add_optimizer_ops(std::vector<GradedOp>& to) {
  to.push_back({"grad_norm",
                "grad_norm",
                "kernels/grad_norm.h",
                "sums of squares of each 8192 gradients, in f64",
                grad_norm_plans,
                make_grad_norm,
                solve_grad_norm,
                {.sizes = {16384}}});
  to.push_back({"step_decide",
                "step_decide",
                "kernels/grad_norm.h",
                "the norm of all gradients, and the factor that clips them",
                step_decide_plans,
                make_step_decide,
                solve_step_decide,
                {.dtype = DType::f64, .sizes = {512}}});
  to.push_back({"adamw_step",
                "adamw_step",
                "kernels/optim_rule.h",
                "AdamW over an arena, clipped and skipped by what lies on the device",
                adamw_plans,
                make_adamw,
                solve_adamw,
                {.sizes = {4096}}});
}

}  // namespace wt::grade
