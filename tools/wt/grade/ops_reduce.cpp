// Reductions: sum and max.
#include <algorithm>
#include <cmath>
#include <limits>

#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

// flag: which axes of [rows, columns] are reduced, and how.
enum Reduced { kRows, kColumns, kAll, kMeanOfRows };

u32 mask_of(int flag) { return flag == kColumns ? 1 : flag == kAll ? 3 : 2; }

Problem make_reduction(const Plan& plan, Draws& d) {
  static const char* const names[] = {"of each row", "of each column", "of all",
                                      "mean of each row"};
  Problem p{.label = label_of(plan, names[plan.flag])};
  p.exact = plan.values == Values::whole && plan.flag != kMeanOfRows;
  const Shape s(plan.sizes);
  const Shape left = reduced_shape(s, mask_of(plan.flag), false);
  p.operands = {output("out", plan.dtype, left), input("in", plan, s, d)};
  p.data.integers[0] = mask_of(plan.flag);
  p.data.integers[1] = plan.flag == kMeanOfRows ? s[1] : 1;
  return p;
}
Problem make_max(const Plan& plan, Draws& d) {
  Problem p = make_reduction(plan, d);
  p.data.integers[1] = 0;  // the largest, not the least
  return p;
}

// The elements of each output, in logical order.
std::vector<std::vector<double>> groups(const Problem& p) {
  const Operand& in = p.operands[1];
  const u32 mask = u32(p.data.integers[0]);
  const i64 columns = in.shape[1];
  std::vector<std::vector<double>> all(size_t(numel_of(p.operands[0].shape)));
  for (i64 r = 0; r < in.shape[0]; ++r)
    for (i64 c = 0; c < columns; ++c)
      all[size_t(mask == 3 ? 0 : mask == 1 ? c : r)].push_back(in.values[size_t(r * columns + c)]);
  return all;
}

void solve_sum(Problem& p) {
  Operand& out = p.operands[0];
  out.want.clear(), out.bound.clear();
  for (const std::vector<double>& group : groups(p)) {
    double sum = 0, size = 0;
    for (const double v : group) sum += v, size += std::fabs(v);
    const double by = double(p.data.integers[1]);
    out.want.push_back(sum / by);
    const double terms = wt_test::kTermsOfFormula + double(group.size());
    out.bound.push_back(p.exact ? 0 : bound_of(out, out.dtype, terms, sum / by, size / by));
  }
}

void solve_max(Problem& p) {
  Operand& out = p.operands[0];
  out.want.clear();
  for (const std::vector<double>& group : groups(p)) {
    double largest = -std::numeric_limits<double>::infinity();
    for (const double v : group)
      if (v > largest || std::isnan(v)) largest = std::isnan(largest) ? largest : v;
    out.want.push_back(largest);
  }
  out.bound.assign(out.want.size(), 0);  // one of the elements: nothing is rounded
}

std::vector<Plan> sum_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.large = false, .wide = Values::whole, .flag = kRows});
  add_optional(all, {.sizes = {d.odd(65, 99), 7}, .values = Values::whole, .flag = kColumns});
  add_optional(all, {.sizes = {9, d.odd(129, 299)}, .flag = kAll});
  add_optional(all, {.sizes = {5, d.odd(33, 99)}, .flag = kMeanOfRows});
  return all;
}
std::vector<Plan> sum_all_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.large = false, .wide = Values::whole, .flag = kAll});
  all.insert(all.begin() + 1,
             {.sizes = {9, d.odd(601, 999)}, .values = Values::whole, .flag = kAll});
  add_optional(all, {.sizes = {5, d.odd(33, 99)}, .flag = kRows});
  return all;
}
std::vector<Plan> max_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.empty_rows = false, .large = false, .flag = kRows});
  // Where every element is below zero a largest one that begins with 0 shows.
  all.push_back({.sizes = {6, d.odd(33, 99)}, .values = Values::shifted, .flag = kRows});
  add_optional(all, {.sizes = {d.odd(65, 99), 7}, .flag = kColumns});
  add_optional(all, {.sizes = {9, d.odd(129, 299)}, .flag = kAll});
  return all;
}

Problem make_negative_max(const Plan& plan, Draws& d) {
  Problem p = make_max(plan, d);
  if (plan.values == Values::shifted)
    for (double& v : p.operands[1].values) v = -v;
  return p;
}

}  // namespace

void add_reduction_ops(std::vector<GradedOp>& to) {
  to.push_back({"sum",
                "sum",
                "kernels/reduce.h",
                "the sum of each row",
                sum_plans,
                make_reduction,
                solve_sum,
                {.sizes = {32, 512}, .flag = kRows}});
  to.push_back({"sum_all",
                "sum",
                "kernels/reduce.h",
                "the sum of all elements",
                sum_all_plans,
                make_reduction,
                solve_sum,
                {.sizes = {32, 512}, .flag = kAll}});
  to.push_back({"max",
                "max",
                "kernels/reduce.h",
                "the largest element of each row; NaN if there is one",
                max_plans,
                make_negative_max,
                solve_max,
                {.sizes = {32, 512}, .flag = kRows}});
}

}  // namespace wt::grade
