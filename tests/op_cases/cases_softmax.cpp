// Rows of softmax and of the losses. What comes out of a loss is its mean.
#include <algorithm>

#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops_loss.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_softmax.h"
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

// --- cross-entropy ------------------------------------------------------------------------------

Array cross_entropy_oracle(const Array& x, const Array& labels, const CrossEntropyOptions& o) {
  const int axis = x.shape.ndim() == 1 ? 0 : 1;
  const i64 classes = x.shape[axis];
  double sum = 0, magnitude = 0, weight = 0;
  for (i64 e = 0; e < i64(labels.v.size()); ++e) {
    const i64 label = i64(labels.v[size_t(e)]);
    if (label == o.ignore_index) continue;
    std::vector<i64> i = unravel(e, labels.shape);
    i.insert(i.begin() + axis, 0);
    const std::vector<double> row = row_through(x, i, axis);
    const LogSum l = log_sum_exp(row);
    double all = 0;
    for (double v : row) all += l.value - v;
    const double picked = l.value - row[size_t(label)];
    sum += (1 - o.label_smoothing) * picked + o.label_smoothing / double(classes) * all;
    magnitude += picked + all / double(classes) + std::fabs(l.value) + std::fabs(l.largest);
    weight += 1;
  }
  return {{}, {sum / weight}, kTermsOfFormula + double(classes) + weight, {magnitude / weight}};
}

void add_cross_entropy(std::vector<OpCase>& rows) {
  OpCase c{"cross_entropy",
           {"cross_entropy_forward", "cross_entropy_backward"},
           kFloats,
           ResultType::loss};
  struct Case {
    const char* label;
    Shape logits, labels;
    CrossEntropyOptions options;
  };
  const Case cases[] = {{"", {4, 3}, {4}, {}},
                        {"", {5}, {}, {}},
                        {"", {2, 3, 4}, {2, 4}, {}},
                        {"ignore 1", {5, 3}, {5}, {.ignore_index = 1}},
                        {"smoothing", {4, 3}, {4}, {.label_smoothing = 0.25}},
                        {"both", {2, 3, 4}, {2, 4}, {.ignore_index = 0, .label_smoothing = 0.5}},
                        {"", {6, 257}, {6}, {}},
                        {"smoothing", {3, 33}, {3}, {.label_smoothing = 0.1}},
                        {"", {1, 2}, {1}, {}}};
  for (const Case& k : cases) {
    const i64 classes = k.logits[k.logits.ndim() == 1 ? 0 : 1];
    c.samples.push_back({k.label,
                         {{k.logits, -5, 5}, index_input(k.labels, classes)},
                         [o = k.options](std::span<const Tensor> in) {
                           return cross_entropy(in[0], in[1], o).mean();
                         },
                         [o = k.options](const std::vector<Array>& in) {
                           return cross_entropy_oracle(in[0], in[1], o);
                         }});
  }
  const auto call = [](const Shape& x, const Shape& y, DType t, CrossEntropyOptions o,
                       double label) {
    return [=](Device d) {
      (void)cross_entropy(ones(x, {.device = d}), full(y, label, {.dtype = t, .device = d}), o)
          .sum.item();
    };
  };
  const std::string tag = "[cross_entropy] ";
  c.errors = {
      undefined_operand("cross_entropy",
                        [](const Tensor& a, const Tensor& b) { (void)cross_entropy(a, b); }),
      error_input<ShapeError>("shapes", tag + "labels must have the shape of the logits without",
                              call({2, 3}, {3}, DType::i64, {}, 0)),
      error_input<DtypeError>("labels", tag + "labels must be i64, got f32",
                              call({2, 3}, {2}, f32, {}, 0)),
      error_input<UsageError>("smoothing", tag + "label_smoothing must be in [0, 1], got 2",
                              call({2, 3}, {2}, DType::i64, {.label_smoothing = 2}, 0)),
      error_input<IndexError>("label", "label 3", call({2, 3}, {2}, DType::i64, {}, 3))};
  rows.push_back(std::move(c));
}

void add_mse(std::vector<OpCase>& rows) {
  OpCase c{"mse_loss", {"mse_forward", "mse_backward"}, kFloats, ResultType::loss};
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{1}, Shape{3, 257}})
    c.samples.push_back({"",
                         {{s}, {s}},
                         [](std::span<const Tensor> in) { return mse_loss(in[0], in[1]).mean(); },
                         [](const std::vector<Array>& in) {
                           double sum = 0;
                           const double n = double(in[0].v.size());
                           for (size_t i = 0; i < in[0].v.size(); ++i)
                             sum += (in[0].v[i] - in[1].v[i]) * (in[0].v[i] - in[1].v[i]);
                           return Array{{}, {sum / n}, kTermsOfFormula + n, {sum / n}};
                         }});
  const Apply call = [](const Tensor& a, const Tensor& b) { (void)mse_loss(a, b); };
  c.errors = {undefined_operand("mse_loss", call), two_devices("mse_loss", call),
              error_input<ShapeError>(
                  "shapes", "[mse_loss] input and target must have one shape", [](Device d) {
                    (void)mse_loss(ones({2, 1}, {.device = d}), ones({2}, {.device = d}));
                  })};
  rows.push_back(std::move(c));
}

void add_softmax_cases(std::vector<OpCase>& rows) {
  add_softmax(rows, "softmax", softmax, false);
  add_softmax(rows, "log_softmax", log_softmax, true);
  add_cross_entropy(rows);
  add_mse(rows);
}

const CaseFile file{add_softmax_cases};

}  // namespace
}  // namespace wt_test
