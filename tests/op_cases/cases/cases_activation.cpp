// Rows of the activations with parameters, and of those in place.
#include <algorithm>
#include <cstring>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/cases/in_place_case.h"

namespace wt_test {
namespace {

double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double sigma(double x) { return 1 / (1 + std::exp(-x)); }
double hard_sigma(double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }
double softplus_of(double x, double beta, double threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
}

// A single element must not lie where the function is a line.
std::vector<double> values_of(const Shape& s) {
  return count(s) == 1 ? std::vector<double>{-0.7} : std::vector<double>{};
}

using Value = std::function<double(double)>;
Oracle oracle_of(const Value& f, double terms) {
  return [f, terms](const std::vector<Array>& in) {
    Array r = in[0];
    for (double& x : r.v) x = f(x);
    r.terms = terms;
    return r;
  };
}

// --- with parameters ---

void add_clamp(std::vector<OpCase>& rows) {
  OpCase c{"clamp", {"clamp"}, kNumbers};
  c.contracts.push_back("clamp_backward");
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{3, 257}})
    c.samples.push_back({"-1, 1",
                         {{s, -3, 3, Role::value, {-1, 1}}},
                         [](std::span<const Tensor> in) { return clamp(in[0], -1, 1); },
                         [](const std::vector<Array>& in) {
                           Array r = in[0];
                           for (double& x : r.v) x = x < -1 ? -1 : x > 1 ? 1 : x;
                           return r;
                         }});
  c.samples.push_back({"min",
                       {{{3, 5}, -3, 3, Role::value, {-1}}},
                       [](std::span<const Tensor> in) { return clamp(in[0], {.min = -1}); },
                       oracle_of([](double x) { return std::max(x, -1.0); }, 4)});
  c.samples.push_back({"max",
                       {{{3, 5}, -3, 3, Role::value, {1}}},
                       [](std::span<const Tensor> in) { return clamp(in[0], {.max = 1}); },
                       oracle_of([](double x) { return std::min(x, 1.0); }, 4)});
  c.samples.push_back({"tensors",
                       {{{2, 3, 4}, -3, 3}, {{3, 1}, -1.5, 0}, {{4}, 0.5, 2}},
                       [](std::span<const Tensor> in) { return clamp(in[0], in[1], in[2]); },
                       [](const std::vector<Array>& in) {
                         return filled(in[0].shape, [&](const std::vector<i64>& i) {
                           return std::min(std::max(at(in[0], i), at(in[1], i)), at(in[2], i));
                         });
                       },
                       false});
  c.samples.back().torch = "torch.clamp(a, b, c)";
  c.samples[c.samples.size() - 2].torch = "torch.clamp(a, max=1)";
  c.samples[c.samples.size() - 3].torch = "torch.clamp(a, min=-1)";
  const Apply apply = [](const Tensor& a, const Tensor&) { (void)clamp(a, 0, 1); };
  c.errors = {undefined_operand("clamp", apply),
              storage_dtype("clamp", "i16 is for storage only", apply),
              error_input<UsageError>(
                  "bounds", "[clamp] needs a bound, min or max",
                  [](Device d) { (void)clamp(ones({2}, {.device = d}), ClampOptions{}); }),
              error_input<ShapeError>("shapes", "[clamp] shapes [3] and [2] do not broadcast",
                                      [](Device d) {
                                        const Tensor x = ones({3}, {.device = d});
                                        (void)clamp(x, x, ones({2}, {.device = d}));
                                      })};
  rows.push_back(std::move(c));
}

void add_nan_to_num(std::vector<OpCase>& rows) {
  OpCase c{"nan_to_num", {"nan_to_num", "nan_to_num_backward"}, kAll};
  const std::vector<double> special{1, NAN, INFINITY, -INFINITY, -2.5};
  const NanToNumOptions options{.nan = 3, .posinf = 4, .neginf = -5};
  const auto value = [](double x) { return x != x ? 3 : std::isinf(x) ? (x > 0 ? 4 : -5) : x; };
  const auto sample = [&](const Shape& s, std::vector<double> values) {
    c.samples.push_back(
        {"",
         {{s, -2, 2, Role::value, {}, std::move(values)}},
         [options](std::span<const Tensor> in) { return nan_to_num(in[0], options); },
         oracle_of(value, 4)});
    c.samples.back().torch = "torch.nan_to_num(a, nan=3, posinf=4, neginf=-5)";
  };
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{3, 257}})
    sample(s, {});
  sample({5}, special);
  c.samples.back().layouts = c.samples.back().gradients = c.samples.back().integers = false;
  const Apply apply = [](const Tensor& a, const Tensor&) { (void)nan_to_num(a); };
  c.errors = {undefined_operand("nan_to_num", apply),
              storage_dtype("nan_to_num", "i16 is for storage only", apply)};
  rows.push_back(std::move(c));
}

struct Parametric {
  std::string label;  // PyTorch's arguments after a
  std::function<Tensor(const Tensor&)> call;
  Value value;
  std::vector<double> kinks{};
  bool smooth = true;
};
void add_parametric(std::vector<OpCase>& rows, const char* name, const char* torch,
                    const std::vector<Parametric>& ways, double terms) {
  OpCase c{name, {name, std::string(name) + "_backward"}, kNumbers, ResultType::floating};
  for (const Parametric& w : ways)
    for (const Shape& s :
         {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{33}, Shape{3, 257}}) {
      c.samples.push_back({w.label,
                           {{s, -3, 3, Role::value, w.kinks, values_of(s)}},
                           [call = w.call](std::span<const Tensor> in) { return call(in[0]); },
                           oracle_of(w.value, terms)});
      c.samples.back().integers = &w == &ways[0];
      if (s.ndim() == 2) c.samples.back().torch = std::string(torch) + "(a" + w.label + ")";
    }
  const Apply apply = [call = ways[0].call](const Tensor& x, const Tensor&) { (void)call(x); };
  c.errors = {undefined_operand(name, apply),
              storage_dtype(name, "i16 is for storage only", apply)};
  rows.push_back(std::move(c));
}

void add_activation_cases(std::vector<OpCase>& rows) {
  add_clamp(rows);
  add_nan_to_num(rows);
  const auto leaky = [](double slope) {
    return [slope](double x) { return x > 0 ? x : slope * x; };
  };
  add_parametric(
      rows, "leaky_relu", "F.leaky_relu",
      {{"", [](const Tensor& x) { return leaky_relu(x); }, leaky(0.01), {0}},
       {", 0.25", [](const Tensor& x) { return leaky_relu(x, 0.25); }, leaky(0.25), {0}},
       {", -0.5", [](const Tensor& x) { return leaky_relu(x, -0.5); }, leaky(-0.5), {0}}},
      4);
  const auto elu_of = [](double alpha) {
    return [alpha](double x) { return x > 0 ? x : alpha * std::expm1(x); };
  };
  add_parametric(rows, "elu", "F.elu",
                 {{"", [](const Tensor& x) { return elu(x); }, elu_of(1), {0}},
                  {", 0.5", [](const Tensor& x) { return elu(x, 0.5); }, elu_of(0.5), {0}},
                  {", -2.0", [](const Tensor& x) { return elu(x, -2); }, elu_of(-2), {0}}},
                 8);
  const auto soft = [](double beta, double threshold) {
    return [=](double x) { return softplus_of(x, beta, threshold); };
  };
  add_parametric(
      rows, "softplus", "F.softplus",
      {{"", [](const Tensor& x) { return softplus(x); }, soft(1, 20)},
       {", 2.0, 3.0", [](const Tensor& x) { return softplus(x, 2, 3); }, soft(2, 3), {1.5}}},
      12);
  for (OpCase& c : rows) {
    if (c.name == "softplus")
      c.errors.push_back(
          error_input<UsageError>("beta", "[softplus] beta must be above 0, got 0",
                                  [](Device d) { (void)softplus(ones({2}, {.device = d}), 0); }));
    if (c.name == "leaky_relu")  // the slope from the other side
      for (Sample& s : c.samples) s.second_is_zero = true;
  }
}

// --- in place ---

void add_in_place_cases(std::vector<OpCase>& rows) {
  struct Activation {
    const char* name;
    void (*write)(Tensor&);
    Value value;
    std::vector<double> kinks{};
    bool numbers = false;  // integers too
    bool cancels = false;
  };
  const Activation activations[] = {
      {"clamp_",
       [](Tensor& x) { x.clamp_(-1, 1); },
       [](double x) { return x < -1  ? -1
                             : x > 1 ? 1
                                     : x; },
       {-1, 1},
       true},
      {"elu_",
       [](Tensor& x) { x.elu_(0.5); },
       [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); },
       {0}},
      {"gelu_", [](Tensor& x) { x.gelu_(); }, [](double x) { return x * phi(x); }, {}, false, true},
      {"hardsigmoid_", [](Tensor& x) { x.hardsigmoid_(); }, hard_sigma, {-3, 3}},
      {"hardswish_",
       [](Tensor& x) { x.hardswish_(); },
       [](double x) { return x * hard_sigma(x); },
       {-3, 3}},
      {"leaky_relu_",
       [](Tensor& x) { x.leaky_relu_(0.25); },
       [](double x) { return x > 0 ? x : 0.25 * x; },
       {0}},
      {"mish_",
       [](Tensor& x) { x.mish_(); },
       [](double x) { return x * std::tanh(softplus_of(x, 1, 20)); },
       {},
       false,
       true},
      {"relu_", [](Tensor& x) { x.relu_(); }, [](double x) { return x > 0 ? x : 0; }, {0}, true},
      {"sigmoid_", [](Tensor& x) { x.sigmoid_(); }, sigma, {}, false, true},
      {"silu_",
       [](Tensor& x) { x.silu_(); },
       [](double x) { return x * sigma(x); },
       {},
       false,
       true},
      {"softplus_",
       [](Tensor& x) { x.softplus_(2, 3); },
       [](double x) { return softplus_of(x, 2, 3); },
       {1.5}},
      {"tanh_",
       [](Tensor& x) { x.tanh_(); },
       [](double x) { return std::tanh(x); },
       {},
       false,
       true},
  };
  for (const Activation& a : activations) {
    const std::string functional = std::string(a.name, std::strlen(a.name) - 1);
    OpCase c = in_place_case(a.name, a.write, {functional, functional + "_backward"});
    if (!a.numbers) {
      c.dtypes = kFloats;
      c.errors.push_back(error_input<DtypeError>(
          "integers", str("[", a.name, "] the result would be floating, the tensor is i64"),
          [write = a.write](Device d) {
            Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
            write(x);
          }));
    }
    c.cancels = a.cancels;
    for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{0}, Shape{}, Shape{33}}) {
      c.samples.push_back({"",
                           {{s, -4, 4, Role::value, a.kinks, values_of(s)}},
                           [write = a.write](std::span<const Tensor> in) {
                             Tensor y = clone(in[0]);
                             write(y);
                             return y;
                           },
                           [value = a.value](const std::vector<Array>& in) {
                             Array r = in[0];
                             r.terms = 12;
                             for (double& x : r.v) {
                               const double y = value(x);
                               r.magnitude.push_back(std::max(std::fabs(x), std::fabs(y)));
                               x = y;
                             }
                             return r;
                           }});
    }
    rows.push_back(std::move(c));
  }
}

const CaseFile file{add_activation_cases}, in_place{add_in_place_cases};

}  // namespace
}  // namespace wt_test
