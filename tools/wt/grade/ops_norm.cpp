// Layer norm's gradients.
#include <cmath>

#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/norm_stats.h"

namespace wt::grade {
namespace {

using wt_test::kTermsOfFormula;

// --- layer norm's gradients ---
// Of the input, flag: 1: no weight. Of the parameters, flag: 1: no gweight, 2: no gbias, 4: both
// are added to what is there. Of both also kCoarse.

std::vector<std::vector<double>> rows_of(const Operand& x) {
  std::vector<std::vector<double>> rows;
  const i64 n = x.shape[1];
  for (i64 r = 0; r < x.shape[0]; ++r)
    rows.emplace_back(x.values.begin() + r * n, x.values.begin() + (r + 1) * n);
  return rows;
}

Problem make_layer_norm_input(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan, str(plan.flag & 1 ? "no weight" : "",
                                        plan.flag & kCoarse ? kCoarseLabel : ""))};
  const Shape s(plan.sizes);
  const Operand x = input("x", plan, s, d);
  p.operands = {output("gx", plan.dtype, s, plan.lie), input("gy", plan, s, d), x,
                stats_operand(rows_of(x), plan.dtype, plan.flag & kCoarse),
                plan.flag & 1 ? absent("weight") : parameter("weight", plan, s[1], d)};
  return p;
}

constexpr double kSixteenRoundings = 0x1p-20;  // of f32

void solve_layer_norm_input(Problem& p) {
  Operand& gx = p.operands[0];
  const Operand &gy = p.operands[1], &x = p.operands[2], &weight = p.operands[4];
  const i64 rows = x.shape[0], n = x.shape[1];
  gx.want.resize(x.values.size()), gx.bound.resize(x.values.size());
  for (i64 r = 0; r < rows; ++r) {
    const Stats s = saved(p.operands[3], r);
    std::vector<double> g;
    std::vector<Hat> h;
    double sum = 0, size = 0, dot = 0, dot_true = 0, dot_size = 0;
    for (i64 i = 0; i < n; ++i) {
      const size_t at = size_t(r * n + i);
      g.push_back(gy.values[at] * (weight.absent ? 1 : weight.values[size_t(i)]));
      h.push_back(hat_of(x.values[at], s));
      sum += g.back(), size += std::fabs(g.back());
      dot += g.back() * h.back().value, dot_size += std::fabs(g.back()) * h.back().size;
      dot_true += std::fabs(g.back() * h.back().value);
    }
    for (i64 i = 0; i < n; ++i) {
      const size_t at = size_t(r * n + i), k = size_t(i);
      gx.want[at] = s.rstd * (g[k] - sum / double(n) - h[k].value * dot / double(n));
      // Of a product of two numbers that cancelled (a row of equal elements) one factor's error
      // meets the other's value, and both errors each other.
      const double product = std::fabs(h[k].value) * dot_size + h[k].size * dot_true +
                             kSixteenRoundings * h[k].size * dot_size;
      const double magnitude = s.rstd * (std::fabs(g[k]) + (size + product) / double(n));
      gx.bound[at] = bound_of(gx, x.dtype, kTermsOfFormula + double(n), gx.want[at], magnitude);
    }
  }
}

std::vector<Plan> layer_norm_input_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.special = false, .large = false});
  all.push_back({.sizes = {3, d.odd(33, 70)}, .flag = kCoarse});
  add_optional(all, {.sizes = {4, d.odd(33, 70)}, .flag = 1});
  // Rows that begin at multiples of 16 bytes.
  add_optional(all, {.sizes = {5, 4 * d.odd(9, 60)}});
  return all;
}

Problem make_layer_norm_params(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(
                plan, str(plan.flag & 1 ? "no gweight" : "", plan.flag & 2 ? "no gbias" : "",
                          plan.flag & 4 ? "added to what is there" : "",
                          plan.flag & kCoarse ? kCoarseLabel : ""))};
  const Shape s(plan.sizes);
  const Operand x = input("x", plan, s, d);
  const auto sums = [&](const char* name, int missing) {
    if (plan.flag & missing) return absent(name);
    return plan.flag & 4 ? updated(parameter(name, plan, s[1], d))
                         : output(name, plan.dtype, {s[1]});
  };
  p.operands = {sums("gweight", 1), sums("gbias", 2), input("gy", plan, s, d), x,
                stats_operand(rows_of(x), plan.dtype, plan.flag & kCoarse)};
  p.data.integers[0] = plan.flag & 4 ? 1 : 0;
  return p;
}

void solve_layer_norm_params(Problem& p) {
  const Operand &gy = p.operands[2], &x = p.operands[3];
  const i64 rows = x.shape[0], n = x.shape[1];
  for (int which = 0; which < 2; ++which) {
    Operand& out = p.operands[size_t(which)];
    if (out.absent) continue;
    out.want.clear(), out.bound.clear();
    for (i64 i = 0; i < n; ++i) {
      double sum = out.updated ? out.values[size_t(i)] : 0, size = std::fabs(sum);
      for (i64 r = 0; r < rows; ++r) {
        const size_t at = size_t(r * n + i);
        const Hat h = which == 0 ? hat_of(x.values[at], saved(p.operands[4], r)) : Hat{1, 1};
        sum += gy.values[at] * h.value, size += std::fabs(gy.values[at]) * h.size;
      }
      out.want.push_back(sum);
      out.bound.push_back(bound_of(out, x.dtype, kTermsOfFormula + double(rows), sum, size));
    }
  }
}

std::vector<Plan> layer_norm_params_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.special = false, .large = false});
  all.push_back({.sizes = {d.odd(129, 300), d.odd(33, 60)}});
  all.push_back({.sizes = {d.odd(5, 40), d.odd(33, 70)}, .flag = kCoarse});
  for (const int flag : {1, 2, 4}) add_optional(all, {.sizes = {9, d.odd(33, 70)}, .flag = flag});
  return all;
}

}  // namespace

void add_norm_ops(std::vector<GradedOp>& to) {
  const Plan rows{.sizes = {32, 512}};
  const char* const layer = "kernels/layer_norm.h";
  to.push_back({"layer_norm_backward_input", "layer_norm_backward_input", layer,
                "layer norm's gradient of its input", layer_norm_input_plans, make_layer_norm_input,
                solve_layer_norm_input, rows});
  to.push_back({"layer_norm_backward_params", "layer_norm_backward_params", layer,
                "layer norm's gradients of weight and bias", layer_norm_params_plans,
                make_layer_norm_params, solve_layer_norm_params, rows});
}

}  // namespace wt::grade
