// Rows of the activations that are made of other operators.
#include <algorithm>

#include "warptape/autograd/ops/composite_activation.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Value = std::function<double(double)>;
using OfTensor = std::function<Tensor(const Tensor&)>;

struct Way {
  std::string arguments;  // PyTorch's after a
  OfTensor call;
  Value value;
  std::vector<double> kinks{};
  double high = 4;
};

Oracle oracle_of(const Value& f) {
  return [f](const std::vector<Array>& in) {
    Array r = in[0];
    r.terms = 12;
    for (double& x : r.v) {
      r.magnitude.push_back(std::max(1.0, std::fabs(x)));
      x = f(x);
    }
    r.rounded = r.magnitude;  // between the parts
    return r;
  };
}

ErrorInput no_integers(const std::string& name, const OfTensor& call) {
  return error_input<DtypeError>(
      "integers", "[" + name + "] expected floats, got i64",
      [call](Device d) { (void)call(ones({2}, {.dtype = DType::i64, .device = d})); });
}

OpCase row_of(const char* name, std::vector<std::string> contracts, const std::vector<Way>& ways,
              bool lines = false) {
  OpCase c{name, std::move(contracts), kFloats};
  c.cancels = true;
  for (const Way& w : ways)
    for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{3, 257}}) {
      const std::vector<double> given =
          count(s) == 1 ? std::vector<double>{-0.7} : std::vector<double>{};
      c.samples.push_back({w.arguments,
                           {{s, -4, w.high, Role::value, w.kinks, given}},
                           [call = w.call](std::span<const Tensor> in) { return call(in[0]); },
                           oracle_of(w.value)});
      c.samples.back().second_is_zero = lines;
      if (s.ndim() == 2)
        c.samples.back().torch = std::string("F.") + name + "(a" + w.arguments + ")";
    }
  const OfTensor call = ways[0].call;
  const Apply apply = [call](const Tensor& x, const Tensor&) { (void)call(x); };
  c.errors = {undefined_operand(name, apply), no_integers(name, call),
              storage_dtype(name, "expected floats, got i16", apply)};
  return c;
}

double elu_of(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

void add_bent(std::vector<OpCase>& rows) {
  const auto between = [](double low, double high) {
    return [=](double x) { return std::min(std::max(x, low), high); };
  };
  rows.push_back(row_of("hardtanh", {"clamp", "where"},
                        {{"", [](const Tensor& x) { return hardtanh(x); }, between(-1, 1), {-1, 1}},
                         {", -2.0, 0.5",
                          [](const Tensor& x) { return hardtanh(x, -2, 0.5); },
                          between(-2, 0.5),
                          {-2, 0.5}}}));
  rows.back().errors.push_back(
      error_input<UsageError>("bounds", "[hardtanh] min_val must be below max_val, got 2 and 1",
                              [](Device d) { (void)hardtanh(ones({2}, {.device = d}), 2, 1); }));
  rows.push_back(row_of("softshrink", {"clamp", "sub"},
                        {{"",
                          [](const Tensor& x) { return softshrink(x); },
                          [](double x) { return x > 0.5    ? x - 0.5
                                                : x < -0.5 ? x + 0.5
                                                           : 0; },
                          {-0.5, 0.5}}}));
  rows.back().errors.push_back(
      error_input<UsageError>("lambda", "[softshrink] lambda must be at least 0, got -1",
                              [](Device d) { (void)softshrink(ones({2}, {.device = d}), -1); }));
  rows.push_back(row_of("hardshrink", {"abs", "le", "where"},
                        {{"",
                          [](const Tensor& x) { return hardshrink(x); },
                          [](double x) { return std::fabs(x) <= 0.5 ? 0 : x; },
                          {-0.5, 0.5}}}));
  rows.push_back(row_of("threshold", {"le", "where"},
                        {{", -1.5, -3.0",
                          [](const Tensor& x) { return threshold(x, -1.5, -3); },
                          [](double x) { return x <= -1.5 ? -3 : x; },
                          {-1.5}}}));
}

void add_smooth(std::vector<OpCase>& rows) {
  rows.push_back(
      row_of("selu", {"elu", "mul"},
             {{"",
               [](const Tensor& x) { return selu(x); },
               [](double x) { return 1.0507009873554804934 * elu_of(x, 1.6732632423543772848); },
               {0}}}));
  rows.push_back(row_of(
      "celu", {"elu", "mul", "div"},
      {{"", [](const Tensor& x) { return celu(x); }, [](double x) { return elu_of(x, 1); }, {0}},
       {", 0.5",
        [](const Tensor& x) { return celu(x, 0.5); },
        [](double x) { return 0.5 * elu_of(x / 0.5, 1); },
        {0}}}));
  rows.back().errors.push_back(
      error_input<UsageError>("alpha", "[celu] alpha must not be 0",
                              [](Device d) { (void)celu(ones({2}, {.device = d}), 0); }));
  rows.push_back(row_of("logsigmoid", {"softplus", "neg"},
                        {{"", [](const Tensor& x) { return logsigmoid(x); },
                          [](double x) { return -std::log1p(std::exp(-x)); }}}));
  rows.push_back(row_of("tanhshrink", {"tanh", "sub"},
                        {{"", [](const Tensor& x) { return tanhshrink(x); },
                          [](double x) { return x - std::tanh(x); }}}));
}

void add_glu(std::vector<OpCase>& rows) {
  OpCase c{"glu", {"sigmoid", "mul"}, kFloats};
  c.cancels = true;
  for (const auto& [in, axis] : {std::pair<Shape, i64>{{3, 6}, -1},
                                 {{2, 4, 3}, 1},
                                 {{2}, 0},
                                 {{0, 4}, 1},
                                 {{4, 0}, 0},
                                 {{3, 514}, -1}}) {
    const int a = int(axis < 0 ? axis + in.ndim() : axis);
    Shape out = in;
    out[a] /= 2;
    c.samples.push_back({str("axis ", axis),
                         {{in}},
                         [axis = axis](std::span<const Tensor> x) { return glu(x[0], axis); },
                         [out, a](const std::vector<Array>& x) {
                           Array r = filled(out, [&](std::vector<i64> i) {
                             const double v = at(x[0], i);
                             i[size_t(a)] += out[a];
                             return v / (1 + std::exp(-at(x[0], i)));
                           });
                           r.terms = 12;
                           for (double v : r.v) r.rounded.push_back(std::fabs(v));
                           return r;
                         }});
    if (c.samples.size() < 3) c.samples.back().torch = str("F.glu(a, ", axis, ")");
  }
  const OfTensor call = [](const Tensor& x) { return glu(x); };
  const Apply apply = [](const Tensor& x, const Tensor&) { (void)glu(x); };
  c.errors = {
      undefined_operand("glu", apply), no_integers("glu", call),
      error_input<ShapeError>("odd", "[glu] axis -1 of [2, 3] has an odd size, 3", [](Device d) {
        (void)glu(ones({2, 3}, {.device = d}));
      })};
  rows.push_back(std::move(c));
}

void add_prelu(std::vector<OpCase>& rows) {
  OpCase c{"prelu", {"gt", "mul", "where"}, kFloats};
  for (const auto& [in, n] : {std::pair<Shape, i64>{{3, 5}, 5},
                              {{2, 3, 4}, 3},
                              {{4, 3}, 1},
                              {{2, 3, 2, 2}, 3},
                              {{}, 1},
                              {{0, 3}, 3},
                              {{3, 257}, 257}})
    c.samples.push_back({"",
                         {{in,
                           -2,
                           2,
                           Role::value,
                           {0},
                           count(in) == 1 ? std::vector<double>{-0.7} : std::vector<double>{}},
                          {{n}}},
                         [](std::span<const Tensor> x) { return prelu(x[0], x[1]); },
                         [in = in, n = n](const std::vector<Array>& x) {
                           return filled(in, [&](const std::vector<i64>& i) {
                             const double v = at(x[0], i);
                             return v > 0 ? v : v * x[1].v[n == 1 ? 0 : size_t(i[1])];
                           });
                         }});
  for (int i : {0, 1, 2}) c.samples[size_t(i)].torch = "F.prelu(a, b)";
  const Apply apply = [](const Tensor& x, const Tensor& w) { (void)prelu(x, w); };
  c.errors = {
      undefined_operand("prelu", apply), two_devices("prelu", apply),
      error_input<ShapeError>(
          "channels", "[prelu] x [2, 4] has 4 channels, weight has 3 parameters", [](Device d) {
            (void)prelu(ones({2, 4}, {.device = d}), ones({3}, {.device = d}));
          })};
  rows.push_back(std::move(c));
}

void add_composite_activation_cases(std::vector<OpCase>& rows) {
  add_bent(rows);
  add_smooth(rows);
  add_glu(rows);
  add_prelu(rows);
}

const CaseFile file{add_composite_activation_cases};

}  // namespace
}  // namespace wt_test
