// Rows of softmax.
#include <algorithm>

#include "warptape/autograd/ops/softmax.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

// log(sum(exp(x))) of a row, and its largest element.
struct LogSum {
  double value, largest;
};
LogSum log_sum_exp(const std::vector<double>& row) {
  const double m = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double x : row) sum += std::exp(x - m);
  return {m + std::log(sum), m};
}
// The elements of x along `axis` through index i.
std::vector<double> row_through(const Array& x, std::vector<i64> i, int axis) {
  std::vector<double> row;
  for (i[size_t(axis)] = 0; i[size_t(axis)] < x.shape[axis]; ++i[size_t(axis)])
    row.push_back(at(x, i));
  return row;
}

Oracle softmax_oracle(int axis, bool log) {
  return [axis, log](const std::vector<Array>& in) {
    const Array& x = in[0];
    const int a = axis < 0 ? axis + x.shape.ndim() : axis;
    Array r{x.shape, {}, kTermsOfFormula + (x.shape.empty() ? 1.0 : double(x.shape[a]))};
    for (i64 e = 0; e < count(x.shape); ++e) {
      const std::vector<i64> i = unravel(e, x.shape);
      const std::vector<double> row = x.shape.empty() ? x.v : row_through(x, i, a);
      const LogSum l = log_sum_exp(row);
      const double y = at(x, i) - l.value;
      // Rounding in the exponent is relative to its size.
      const double exponent = 1 + std::fabs(at(x, i) - l.largest) + std::fabs(l.value - l.largest);
      r.v.push_back(log ? y : std::exp(y));
      r.magnitude.push_back(log ? exponent : std::exp(y) * exponent);
    }
    return r;
  };
}

void add_softmax(std::vector<OpCase>& rows, const char* name, Tensor (*op)(const In&, Dim),
                 bool log) {
  OpCase c{name, {"softmax_forward", "softmax_backward"}, kFloats};
  c.cancels = true;
  const std::pair<Shape, int> shapes[] = {
      {{3, 5}, 1},   {{3, 5}, 0}, {{2, 3, 4}, 1}, {{2, 3, 4}, -1}, {{7}, 0},        {{3, 257}, 1},
      {{257, 3}, 0}, {{4, 1}, 1}, {{0, 3}, 1},    {{3, 0}, 1},     {{2, 33, 3}, 1}, {{1, 64}, -1}};
  for (const auto& [s, axis] : shapes)
    c.samples.push_back({"axis " + std::to_string(axis),
                         {{s, -6, 6}},
                         [op, axis = axis](std::span<const Tensor> in) { return op(in[0], axis); },
                         softmax_oracle(axis, log)});
  for (Sample& s : c.samples)  // one element a row: constant
    if (s.inputs[0].shape == Shape{4, 1}) s.gradients = false;
  const Apply call = [op](const Tensor& x, const Tensor&) { (void)op(x, 0); };
  const std::string tag = std::string("[") + name + "] ";
  c.errors = {undefined_operand(name, call),
              error_input<ShapeError>("axis", "axis 2",
                                      [op](Device d) {
                                        (void)op(ones({2, 3}, {.device = d}), 2);
                                      }),
              error_input<DtypeError>(
                  "dtype", tag + "expected a floating dtype that computes, got i64",
                  [op](Device d) { (void)op(ones({2}, {.dtype = DType::i64, .device = d}), 0); })};
  rows.push_back(std::move(c));
}

void add_softmax_cases(std::vector<OpCase>& rows) {
  add_softmax(rows, "softmax", softmax, false);
  add_softmax(rows, "log_softmax", log_softmax, true);
}

const CaseFile file{add_softmax_cases};

}  // namespace
}  // namespace wt_test
