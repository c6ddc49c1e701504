// Operators on rows: softmax, layer norm, cross entropy.
#include <algorithm>
#include <cmath>
#include <limits>

#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/norm_stats.h"

namespace wt::grade {
namespace {

using wt_test::kTermsOfFormula;
using Row = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Calls f(row) with the places of a row's elements in logical order, along an axis of 2.
template <class F>
void for_rows(const Shape& s, int axis, const F& f) {
  std::vector<size_t> row(size_t(s[axis]));
  const i64 rows = s[1 - axis], columns = s[1];
  for (i64 r = 0; r < rows; ++r) {
    for (i64 i = 0; i < s[axis]; ++i)
      row[size_t(i)] = size_t(axis == 1 ? r * columns + i : i * columns + r);
    f(row);
  }
}

// log(sum(exp(x))) of a row and its largest element; NaN where there is no finite largest one.
struct LogSum {
  double value = kNaN, largest = kNaN;
};
LogSum log_sum_exp(const Row& x) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double v : x) {
    if (std::isnan(v)) return {};
    largest = std::max(largest, v);
  }
  if (std::isinf(largest)) return {};
  for (const double v : x) sum += std::exp(v - largest);
  return {largest + std::log(sum), largest};
}

// --- softmax ---
// flag: 1: log_softmax, 2: along axis 0.

std::string softmax_label(const Plan& plan) {
  return label_of(plan, str(plan.flag & 1 ? "log, " : "", "axis ", plan.flag & 2 ? 0 : 1));
}

std::vector<Plan> softmax_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d);
  add_optional(all, {.sizes = {4, d.odd(33, 99)}, .flag = 1});
  add_optional(all, {.sizes = {2, d.odd(129, 299)}, .values = Values::large, .flag = 1});
  add_optional(all, {.sizes = {d.odd(33, 99), 5}, .flag = 2});
  return all;
}

Problem make_softmax(const Plan& plan, Draws& d) {
  Problem p{.label = softmax_label(plan)};
  const Shape s(plan.sizes);
  p.operands = {output("y", plan.dtype, s, plan.lie), input("x", plan, s, d)};
  p.data.integers[0] = plan.flag & 2 ? 0 : 1;
  p.data.integers[1] = plan.flag & 1;
  return p;
}

void solve_softmax(Problem& p) {
  Operand& y = p.operands[0];
  const Operand& x = p.operands[1];
  const bool log = p.data.integers[1] != 0;
  y.want.resize(x.values.size()), y.bound.resize(x.values.size());
  for_rows(x.shape, int(p.data.integers[0]), [&](const std::vector<size_t>& places) {
    Row row;
    for (const size_t i : places) row.push_back(x.values[i]);
    const LogSum l = log_sum_exp(row);
    const double terms = kTermsOfFormula + double(row.size());
    for (const size_t i : places) {
      const double v = x.values[i] - l.value, want = log ? v : std::exp(v);
      // Rounding in the exponent is relative to its size.
      const double exponent =
          1 + std::fabs(x.values[i] - l.largest) + std::fabs(l.value - l.largest);
      const double magnitude = log ? exponent : want * (std::isinf(exponent) ? 0 : exponent);
      y.want[i] = want, y.bound[i] = bound_of(y, x.dtype, terms, want, magnitude);
    }
  });
}

// --- softmax's gradient ---

Problem make_softmax_backward(const Plan& plan, Draws& d) {
  Problem p = make_softmax(plan, d);
  const Shape s(plan.sizes);
  solve_softmax(p);
  Operand y = p.operands[1];
  y.name = "y";
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = rounded(p.operands[0].want[i], y.dtype);
  p.operands = {output("gx", plan.dtype, s, plan.lie), input("gy", plan, s, d), y};
  return p;
}

void solve_softmax_backward(Problem& p) {
  Operand& gx = p.operands[0];
  const Operand &gy = p.operands[1], &y = p.operands[2];
  const bool log = p.data.integers[1] != 0;
  gx.want.resize(gy.values.size()), gx.bound.resize(gy.values.size());
  for_rows(gy.shape, int(p.data.integers[0]), [&](const std::vector<size_t>& places) {
    double sum = 0, size = 0;
    for (const size_t i : places) {
      const double term = log ? gy.values[i] : gy.values[i] * y.values[i];
      sum += term, size += std::fabs(term);
    }
    const double terms = kTermsOfFormula + double(places.size());
    for (const size_t i : places) {
      const double g = gy.values[i], v = y.values[i];
      const double share = log ? std::exp(v) : v;
      gx.want[i] = log ? g - share * sum : v * (g - sum);
      const double magnitude =
          log ? std::fabs(g) + share * size * (1 + std::fabs(v)) : share * (std::fabs(g) + size);
      gx.bound[i] = bound_of(gx, gy.dtype, terms, gx.want[i], magnitude);
    }
  });
}

std::vector<Plan> softmax_backward_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.special = false, .large = false});
  add_optional(all, {.sizes = {4, d.odd(33, 99)}, .flag = 1});
  add_optional(all, {.sizes = {d.odd(33, 99), 5}, .flag = 2});
  return all;
}

// --- layer norm ---
// flag: 1: no weight, 2: no bias, 4: the statistics are wanted.

std::vector<Plan> layer_norm_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.large = false});
  all.push_back({.sizes = {3, d.odd(200, 400)}, .values = Values::shifted});
  for (const int flag : {1, 2, 3, 4})
    add_optional(all, {.sizes = {4, d.odd(33, 70)}, .flag = flag});
  return all;
}

Problem make_layer_norm(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(
                plan, str(plan.flag & 1 ? "no weight, " : "", plan.flag & 2 ? "no bias, " : "",
                          plan.flag & 4 ? "" : "no stats, ", "eps 1e-5"))};
  const Shape s(plan.sizes);
  p.operands = {output("y", plan.dtype, s, plan.lie),
                plan.flag & 4 ? output("stats", wide_of(plan.dtype), {3, s[0]}) : absent("stats"),
                input("x", plan, s, d),
                plan.flag & 1 ? absent("weight") : parameter("weight", plan, s[1], d),
                plan.flag & 2 ? absent("bias") : parameter("bias", plan, s[1], d)};
  p.data.reals[0] = 1e-5;
  return p;
}

void solve_layer_norm(Problem& p) {
  Operand &y = p.operands[0], &stats = p.operands[1];
  const Operand &x = p.operands[2], &weight = p.operands[3], &bias = p.operands[4];
  const i64 rows = x.shape[0], n = x.shape[1];
  y.want.resize(x.values.size()), y.bound.resize(x.values.size());
  if (!stats.absent) {
    stats.want.assign(size_t(3 * rows), 0);
    stats.bound.assign(size_t(3 * rows), -1);  // of rows without elements
  }
  const double terms = kTermsOfFormula + double(n);
  for (i64 r = 0; r < rows; ++r) {
    const double* const v = x.values.data() + r * n;
    double mean = 0, size = 0, variance = 0;
    for (i64 i = 0; i < n; ++i) mean += v[i] / double(n), size += std::fabs(v[i]) / double(n);
    for (i64 i = 0; i < n; ++i) variance += (v[i] - mean) * (v[i] - mean) / double(n);
    const double rstd = 1 / std::sqrt(variance + p.data.reals[0]);
    for (i64 i = 0; i < n; ++i) {
      const size_t at = size_t(r * n + i);
      const double w = weight.absent ? 1 : weight.values[size_t(i)];
      const double b = bias.absent ? 0 : bias.values[size_t(i)];
      y.want[at] = (v[i] - mean) * rstd * w + b;
      // x and the mean are subtracted from each other.
      const double magnitude = (std::fabs(v[i]) + size) * rstd * std::fabs(w) + std::fabs(b);
      y.bound[at] = bound_of(y, x.dtype, terms, y.want[at], magnitude);
    }
    if (stats.absent || n == 0) continue;
    want_stats(stats, r, x.dtype, terms, mean, size, rstd);
  }
}

// --- cross entropy ---
// flag: 1: some labels are ignored, 2: smoothing.

std::vector<Plan> cross_entropy_plans(Draws& d) {
  std::vector<Plan> all = row_plans(d, {.empty_rows = false, .special = false});
  add_optional(all, {.sizes = {9, d.odd(33, 99)}, .flag = 1});
  add_optional(all, {.sizes = {6, d.odd(33, 99)}, .flag = 2});
  return all;
}

Problem make_cross_entropy(const Plan& plan, Draws& d) {
  Problem p{.label = label_of(plan, str(plan.flag & 1 ? "ignored labels, " : "", "smoothing ",
                                        plan.flag & 2 ? 0.25 : 0.0))};
  const Shape s(plan.sizes);
  const DType wide = plan.dtype == DType::f64 ? DType::f64 : DType::f32;
  Operand labels{.name = "labels", .dtype = DType::i64, .shape = {s[0]}};
  for (i64 r = 0; r < s[0]; ++r)
    labels.values.push_back(plan.flag & 1 && d.next() % 3 == 0 ? -100.0
                                                               : double(d.whole(0, s[1] - 1)));
  p.operands = {output("loss_sum", wide, {}), output("weight", wide, {}),
                output("stats", wide, {2, s[0]}), input("logits", plan, s, d), labels};
  p.data.integers[0] = 1, p.data.integers[1] = -100;
  p.data.reals[0] = plan.flag & 2 ? 0.25 : 0;
  return p;
}

void solve_cross_entropy(Problem& p) {
  Operand &loss = p.operands[0], &weight = p.operands[1], &stats = p.operands[2];
  const Operand &x = p.operands[3], &labels = p.operands[4];
  const i64 rows = x.shape[0], classes = x.shape[1];
  const double smoothing = p.data.reals[0];
  double sum = 0, magnitude = 0, counted = 0;
  stats.want.assign(size_t(2 * rows), 0), stats.bound.assign(size_t(2 * rows), -1);
  for (i64 r = 0; r < rows; ++r) {
    const i64 label = i64(labels.values[size_t(r)]);
    if (label == p.data.integers[1]) continue;
    const Row row(x.values.begin() + r * classes, x.values.begin() + (r + 1) * classes);
    const LogSum l = log_sum_exp(row);
    double mean = 0, size = 0;
    for (const double v : row) mean += v / double(classes), size += std::fabs(v) / double(classes);
    const double nll = l.value - row[size_t(label)];
    sum += (1 - smoothing) * nll + smoothing * (l.value - mean);
    magnitude += 1 + std::fabs(l.value) + std::fabs(l.largest) + std::fabs(row[size_t(label)]) +
                 smoothing * size;
    ++counted;
    const double terms = kTermsOfFormula + double(classes);
    const size_t first = size_t(r), second = size_t(rows + r);
    stats.want[first] = l.largest, stats.bound[first] = 0;
    stats.want[second] = l.value - l.largest;
    stats.bound[second] =
        bound_of(stats, x.dtype, terms, stats.want[second], 1 + stats.want[second]);
  }
  loss.want = {sum};
  loss.bound = {bound_of(loss, x.dtype, kTermsOfFormula + double(classes + rows), sum, magnitude)};
  weight.want = {counted}, weight.bound = {0};
}

}  // namespace

void add_row_ops(std::vector<GradedOp>& to) {
  const Plan score{.sizes = {32, 512}};
  to.push_back({"softmax_forward", "softmax_forward", "kernels/softmax.h",
                "rows of exponentials that add up to 1", softmax_plans, make_softmax, solve_softmax,
                score});
  to.push_back({"softmax_backward", "softmax_backward", "kernels/softmax.h",
                "softmax's gradient, of its output", softmax_backward_plans, make_softmax_backward,
                solve_softmax_backward, score});
  to.push_back({"layer_norm_forward", "layer_norm_forward", "kernels/layer_norm.h",
                "rows of mean 0 and variance 1, times weight, plus bias", layer_norm_plans,
                make_layer_norm, solve_layer_norm, score});
  to.push_back({"cross_entropy_forward", "cross_entropy_forward", "kernels/cross_entropy.h",
                "the sum of -log softmax at the labels", cross_entropy_plans, make_cross_entropy,
                solve_cross_entropy, score});
}

}  // namespace wt::grade
