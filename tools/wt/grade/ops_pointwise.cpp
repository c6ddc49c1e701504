// Elementwise operators and copies.
#include <cmath>

#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

using wt_test::kTermsOfFormula;

// Sizes of one axis, from none to several blocks and a tail.
std::vector<Plan> flat_plans(Draws& d, bool special) {
  std::vector<Plan> all;
  for (const i64 n : {d.odd(1025, 1999), i64{1}, d.odd(3, 31), i64{32}, i64{33}, d.odd(65, 255),
                      i64{256}, i64{257}, i64{0}, d.odd(4097, 5000)})
    all.push_back({.sizes = {n}});
  if (special) all.push_back({.sizes = {d.odd(301, 399)}, .values = Values::special});
  for (const DType t : {DType::f16, DType::bf16, DType::f64})
    add_optional(all, {.dtype = t, .sizes = {d.odd(65, 255)}});
  add_optional(all, {.sizes = {d.odd(65, 255)}, .lie = Lie::offset});
  for (const Lie lie : {Lie::swapped, Lie::spread, Lie::padded})
    add_optional(all, {.sizes = {5, d.whole(34, 44)}, .lie = lie});
  return all;
}

// --- add ---
// flag: 1: b is one row, broadcast over those of a.

std::vector<Plan> add_plans(Draws& d) {
  std::vector<Plan> all = flat_plans(d, true);
  add_optional(all, {.sizes = {5, d.odd(33, 99)}, .flag = 1});
  add_optional(all, {.dtype = DType::i32, .sizes = {d.odd(65, 255)}});
  return all;
}
Problem make_add(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan, plan.flag & 1 ? "b of one row" : "")};
  const Shape s(plan.sizes);
  Plan second = plan;
  if (plan.flag & 1) second.lie = Lie::dense;
  p.operands = {output("out", plan.dtype, s, plan.lie), input("a", plan, s, d),
                input("b", second, plan.flag & 1 ? Shape{s[1]} : s, d)};
  return p;
}
void solve_add(Problem& p) {
  Operand& out = p.operands[0];
  const std::vector<double>&a = p.operands[1].values, &b = p.operands[2].values;
  out.want.resize(a.size()), out.bound.resize(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    out.want[i] = a[i] + b[i % b.size()];
    out.bound[i] = bound_of(out, out.dtype, 1, out.want[i], std::fabs(out.want[i]));
  }
}

// --- gelu ---

std::vector<Plan> gelu_plans(Draws& d) { return flat_plans(d, false); }
Problem make_unary(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan)};
  const Shape s(plan.sizes);
  p.operands = {output("out", plan.dtype, s, plan.lie), input("x", plan, s, d)};
  return p;
}
void solve_gelu(Problem& p) {
  Operand& out = p.operands[0];
  const std::vector<double>& x = p.operands[1].values;
  out.want.resize(x.size()), out.bound.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out.want[i] = 0.5 * x[i] * std::erfc(-x[i] * M_SQRT1_2);
    // 1 + erf cancels for negative x.
    out.bound[i] = bound_of(out, out.dtype, kTermsOfFormula, out.want[i], std::fabs(x[i]));
  }
}

// --- copies ---
// flag: 1: `in` lies with its axes swapped, `out` does not; 2: from f64 to the dtype.

Problem make_copy(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan, plan.flag & 1   ? "of a transposed matrix"
                                    : plan.flag & 2 ? "of f64"
                                                    : "")};
  const Shape s(plan.sizes);
  Plan from = plan;
  if (plan.flag & 1) from.lie = Lie::swapped;
  if (plan.flag & 2) from.dtype = DType::f64;
  p.operands = {output("out", plan.dtype, s, plan.flag & 1 ? Lie::dense : plan.lie),
                input("in", from, s, d)};
  return p;
}
void solve_copy(Problem& p) {
  Operand& out = p.operands[0];
  out.want = p.operands[1].values;
  for (double& v : out.want) v = rounded(v, out.dtype);
  out.bound.assign(out.want.size(), 0);
}
std::vector<Plan> copy_plans(Draws& d) {
  std::vector<Plan> all = flat_plans(d, true);
  add_optional(all, {.sizes = {d.odd(33, 60), d.odd(33, 60)}, .flag = 1});
  add_optional(all, {.sizes = {d.odd(65, 255)}, .flag = 2});
  return all;
}
std::vector<Plan> transpose_plans(Draws& d) {
  std::vector<Plan> all;
  const std::pair<i64, i64> sizes[] = {{d.odd(33, 63), d.odd(65, 99)},
                                       {1, 1},
                                       {1, d.odd(3, 40)},
                                       {d.odd(3, 40), 1},
                                       {32, 32},
                                       {33, 31},
                                       {64, 96},
                                       {d.odd(97, 130), d.odd(5, 9)}};
  for (const auto& [rows, columns] : sizes) all.push_back({.sizes = {rows, columns}, .flag = 1});
  all.push_back({.sizes = {17, d.odd(35, 45)}, .values = Values::special, .flag = 1});
  for (const DType t : {DType::f16, DType::f64, DType::i64})
    add_optional(all, {.dtype = t, .sizes = {37, d.odd(35, 45)}, .flag = 1});
  add_optional(all, {.sizes = {0, 5}, .flag = 1});
  add_optional(all, {.sizes = {d.odd(301, 399)}});
  add_optional(all, {.sizes = {5, d.odd(33, 60)}, .lie = Lie::spread});
  return all;
}

}  // namespace

void add_pointwise_ops(std::vector<GradedOp>& to) {
  to.push_back({"add",
                "add",
                "kernels/pointwise.h",
                "a + b",
                add_plans,
                make_add,
                solve_add,
                {.sizes = {16384}}});
  to.push_back({"gelu",
                "gelu",
                "kernels/pointwise.h",
                "x (1 + erf(x / sqrt(2))) / 2",
                gelu_plans,
                make_unary,
                solve_gelu,
                {.sizes = {16384}}});
  to.push_back({"copy",
                "copy",
                "kernels/copy.h",
                "out = in",
                copy_plans,
                make_copy,
                solve_copy,
                {.sizes = {16384}}});
  to.push_back({"transpose",
                "copy",
                "kernels/copy.h",
                "out = in, whose last two axes are swapped in memory",
                transpose_plans,
                make_copy,
                solve_copy,
                {.sizes = {128, 128}, .flag = 1}});
}

}  // namespace wt::grade
