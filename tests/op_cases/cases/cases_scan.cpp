// Rows of scans.
#include <functional>

#include "warptape/autograd/ops/scan.h"
#include "warptape/tests/op_cases/lines.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

Line sums_of(const Line& x) {
  Line y;
  double sum = 0, size = 0;
  for (const double v : x.v) {
    y.v.push_back(sum += v);
    y.magnitude.push_back(size += std::fabs(v));
  }
  return y;
}
Line products_of(const Line& x) {
  Line y;
  double product = 1;
  for (const double v : x.v) y.v.push_back(product *= v);
  return y;
}

using Scan = Tensor (*)(const In&, Dim);
Sample sample(const std::string& torch, Scan f, Line (*of)(const Line&), const Input& in,
              int axis) {
  return {str("axis ", axis),
          {in},
          [f, axis](std::span<const Tensor> x) { return f(x[0], axis); },
          [of, axis](const std::vector<Array>& x) { return along(x[0], axis, of); },
          true,
          true,
          true,
          false,
          {},
          false,
          str(torch, "(a, dim=", axis, ")")};
}

void add_running(std::vector<OpCase>& rows, const std::string& name, Scan f,
                 Line (*of)(const Line&)) {
  OpCase c{name, {"scan"}, kAll, ResultType::sum};
  const std::string torch = "torch." + name;
  for (const auto& [shape, axis] : {std::pair<Shape, int>{{3, 5}, 1},
                                    {{3, 5}, 0},
                                    {{2, 3, 4}, 1},
                                    {{7}, -1},
                                    {{1}, 0},
                                    {{}, 0}})
    c.samples.push_back(sample(torch, f, of, {shape}, axis));
  for (const auto& [shape, axis] :
       {std::pair<Shape, int>{{0, 3}, 0}, {{3, 0}, 0}, {{2, 33}, 1}, {{31, 3}, 0}})
    c.samples.push_back(sample(torch, f, of, {shape, 0.7, 1.3}, axis));
  c.samples.push_back(sample(torch, f, of, {{3, 257}, 0.7, 1.3}, 1));
  for (Sample& s : c.samples) s.second_is_zero = count(s.inputs[0].shape) == 1;
  c.errors = {undefined_operand(name, [f](const Tensor& x, const Tensor&) { (void)f(x, 0); }),
              error_input<ShapeError>("axis", "[" + name + "] axis 2 is outside [-2, 1]",
                                      [f](Device d) {
                                        (void)f(ones({2, 3}, {.device = d}), 2);
                                      }),
              storage_dtype(name, "i16 is for storage only",
                            [f](const Tensor& x, const Tensor&) { (void)f(x, 0); })};
  rows.push_back(std::move(c));
}

void add_zeros(OpCase& c) {
  const std::pair<const char*, std::vector<double>> lines[] = {
      {"a zero", {1.5, 0, -2, 0.5, 1, -1, 2, 0}},
      {"zeros", {0, 2, 0, -1.5, 1, 0, 0, 3}},
  };
  for (const auto& [label, values] : lines) {
    Input in{{2, 4}};
    in.values = values;
    c.samples.push_back(sample("torch.cumprod", cumprod, products_of, in, 1));
    c.samples.back().label = label;
    c.samples.back().constant = true;
  }
}

// y_k = a_k y_(k-1) + b_k, walked from the end when `reverse`.
Array recurrence(const Array& a, const Array& b, int axis, bool reverse) {
  Array y = b;
  y.magnitude.assign(b.v.size(), 0);
  const size_t at = size_t(axis < 0 ? axis + b.shape.ndim() : axis);
  const i64 n = b.shape.ndim() ? b.shape[int(at)] : 1;
  y.terms = kTermsOfFormula + double(n);
  for (i64 step = 0; step < n; ++step)
    for (i64 i = 0; i < count(b.shape); ++i) {
      std::vector<i64> place = unravel(i, b.shape);
      const i64 k = place.empty() ? 0 : place[at];
      if (k != (reverse ? n - 1 - step : step)) continue;
      double before = 0, size = 0;
      if (step > 0) {
        place[at] += reverse ? 1 : -1;
        before = y.v[size_t(ravel(place, b.shape))];
        size = y.magnitude[size_t(ravel(place, b.shape))];
      }
      y.v[size_t(i)] = a.v[size_t(i)] * before + b.v[size_t(i)];
      y.magnitude[size_t(i)] = std::fabs(a.v[size_t(i)]) * size + std::fabs(b.v[size_t(i)]);
    }
  return y;
}

void add_linear(std::vector<OpCase>& rows) {
  OpCase c{"linear_scan", {"scan"}, kFloats};
  for (const bool reverse : {false, true})
    for (const auto& [shape, axis] : {std::pair<Shape, int>{{3, 5}, 1},
                                      {{4, 3}, 0},
                                      {{2, 3, 4}, -2},
                                      {{}, 0},
                                      {{1, 2}, 0},
                                      {{0, 2}, 0},
                                      {{2, 0}, 0},
                                      {{3, 257}, 1}}) {
      Sample s{str("axis ", axis, reverse ? " reverse" : ""),
               {{shape, -1, 1}, {shape}},
               [axis = axis, reverse](std::span<const Tensor> x) {
                 return linear_scan(x[0], x[1], axis, {.reverse = reverse});
               },
               [axis = axis, reverse](const std::vector<Array>& x) {
                 return recurrence(x[0], x[1], axis, reverse);
               }};
      s.second_is_zero = shape.ndim() == 0 || shape == Shape{1, 2};
      c.samples.push_back(std::move(s));
    }
  std::swap(c.samples[1], c.samples[8]);
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)linear_scan(a, b, 0); };
  c.errors = {
      undefined_operand("linear_scan", apply), two_devices("linear_scan", apply),
      error_input<ShapeError>("shapes", "[linear_scan] a [2] and b [3] differ",
                              [](Device d) {
                                (void)linear_scan(ones({2}, {.device = d}),
                                                  ones({3}, {.device = d}), 0);
                              }),
      error_input<DtypeError>("integers", "[linear_scan] expected a floating dtype", [](Device d) {
        const Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
        (void)linear_scan(x, x, 0);
      })};
  rows.push_back(std::move(c));
}

void add_scan_cases(std::vector<OpCase>& rows) {
  add_running(rows, "cumsum", cumsum, sums_of);
  add_running(rows, "cumprod", cumprod, products_of);
  add_zeros(rows.back());
  add_linear(rows);
}

const CaseFile file{add_scan_cases};

}  // namespace
}  // namespace wt_test
