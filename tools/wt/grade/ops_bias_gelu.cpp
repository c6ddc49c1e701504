// Bias and GELU in place, and their gradient from the result (labs/09_fused).
#include <cmath>

#include "warptape/labs/09_fused/bias_gelu.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

double gelu(double z) { return 0.5 * z * std::erfc(-z * M_SQRT1_2); }
double gelu_slope(double z) {
  return 0.5 * std::erfc(-z * M_SQRT1_2) + z * std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
}

// A bit for each z, as the contract wants them.
Operand bits_of(const std::vector<double>& z) {
  Operand o{.name = "bits", .dtype = DType::u8, .shape = {i64(z.size() + 7) / 8}};
  o.values.assign((z.size() + 7) / 8, 0);
  for (size_t i = 0; i < z.size(); ++i)
    if (z[i] > double(kGeluTurn)) o.values[i / 8] += double(1 << i % 8);
  return o;
}

std::vector<Plan> bias_gelu_plans(Draws& d) {
  std::vector<Plan> all;
  for (const Plan& plan : row_plans(d, {.special = false}))
    if (plan.required) all.push_back(plan);
  return all;
}

// --- forward ---

Problem make_bias_gelu(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan)};
  const i64 n = numel_of(Shape(plan.sizes));
  Plan usual = plan;
  usual.values = Values::usual;
  p.operands = {updated(input("x", plan, Shape(plan.sizes), d)),
                output("bits", DType::u8, {(n + 7) / 8}), input("bias", usual, {plan.sizes[1]}, d)};
  return p;
}

void solve_bias_gelu(Problem& p) {
  Operand &x = p.operands[0], &bits = p.operands[1];
  const std::vector<double>& bias = p.operands[2].values;
  std::vector<double> all;
  x.want.clear(), x.bound.clear();
  for (size_t i = 0; i < x.values.size(); ++i) {
    const double b = bias[i % bias.size()], z = rounded(x.values[i] + b, x.dtype);
    all.push_back(z);
    x.want.push_back(gelu(z));
    x.bound.push_back(bound_of(x, x.dtype, wt_test::kTermsOfFormula, x.want.back(), std::fabs(z)));
  }
  bits.want = bits_of(all).values;
  bits.bound.assign(bits.want.size(), 0);
}

// --- backward ---

Problem make_bias_gelu_backward(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan)};
  const Shape s(plan.sizes);
  Plan usual = plan;
  usual.values = Values::usual;
  Operand y = input("y", plan, s, d);
  const Operand bits = bits_of(y.values);
  for (double& v : y.values) v = rounded(gelu(v), y.dtype);
  p.operands = {updated(input("g", usual, s, d)), y, bits};
  return p;
}

// By halving; the bounds are those between which gelu is told apart in f32.
double inverse(double y, bool above) {
  double low = above ? double(kGeluTurn) : -15, high = above ? std::fmax(y, 0) + 0.2 : kGeluTurn;
  for (int k = 0; k < 80; ++k) {
    const double middle = 0.5 * (low + high), value = gelu(middle);
    ((above ? value < y : value > y) ? low : high) = middle;
  }
  return low;
}

void solve_bias_gelu_backward(Problem& p) {
  Operand& g = p.operands[0];
  const std::vector<double>&y = p.operands[1].values, &bits = p.operands[2].values;
  constexpr double u = 0x1p-24;
  g.want.clear(), g.bound.clear();
  for (size_t i = 0; i < y.size(); ++i) {
    const double slope = gelu_slope(inverse(y[i], i64(bits[i / 8]) >> (i % 8) & 1));
    const double size = std::fabs(g.values[i]);
    // The contract's: y was rounded, and near the turn it tells z to half its digits.
    const double told = std::fmin(2 * std::sqrt(u), 8 * u / std::fabs(slope));
    g.want.push_back(g.values[i] * slope);
    g.bound.push_back(size * told + bound_of(g, g.dtype, wt_test::kTermsOfFormula, g.want.back(),
                                             size * (1 + std::fabs(slope))));
  }
}

}  // namespace

void add_bias_gelu_ops(std::vector<GradedOp>& to) {
  const Plan score{.sizes = {32, 512}};
  const char* const header = "labs/09_fused/bias_gelu.h";
  to.push_back({"bias_gelu",
                "bias_gelu",
                header,
                "gelu(x + bias) over x, and a bit of what it was applied to",
                bias_gelu_plans,
                make_bias_gelu,
                solve_bias_gelu,
                score,
                {.most_asked = 2}});
  to.push_back({"bias_gelu_backward",
                "bias_gelu_backward",
                header,
                "its gradient, from the result and the bit",
                bias_gelu_plans,
                make_bias_gelu_backward,
                solve_bias_gelu_backward,
                score,
                {.most_asked = 2}});
}

}  // namespace wt::grade
