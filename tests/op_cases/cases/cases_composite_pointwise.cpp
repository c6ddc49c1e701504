// Rows of elementwise operators that are made of others.
#include <limits>

#include "warptape/autograd/ops/composite_pointwise.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;
// Of the operands at one place.
using Formula = std::function<double(const Values&)>;

Oracle oracle_of(const Formula& f, const Formula& magnitude) {
  return [f, magnitude](const std::vector<Array>& in) {
    Shape s = in[0].shape;
    for (const Array& a : in) s = broadcast(s, a.shape);
    const auto at_place = [&in](const Formula& g) {
      return [&in, g](const std::vector<i64>& i) {
        Values v;
        for (const Array& a : in) v.push_back(at(a, i));
        return g(v);
      };
    };
    Array r = filled(s, at_place(f));
    r.magnitude = filled(s, at_place(magnitude)).v;
    r.terms = kTermsOfFormula;
    return r;
  };
}
Formula size_of(const Formula& f) {
  return [f](const Values& v) { return std::fabs(f(v)); };
}

ErrorInput no_broadcast(const std::string& op, const Apply& apply) {
  return error_input<ShapeError>("shapes", "[" + op + "] shapes [2, 3] and [4] do not broadcast",
                                 [apply](Device d) {
                                   apply(ones({2, 3}, {.device = d}), ones({4}, {.device = d}));
                                 });
}

void add_exp2(std::vector<OpCase>& rows) {
  OpCase c{"exp2", {"pow"}, kNumbers, ResultType::floating};
  const Formula f = [](const Values& v) { return std::exp2(v[0]); };
  const CheckedFunction call = [](std::span<const Tensor> in) { return exp2(in[0]); };
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{33}, Shape{3, 257}})
    c.samples.push_back({"", {{s, -4, 4}}, call, oracle_of(f, size_of(f))});
  c.samples.push_back({"special values",
                       {{{5}, 0, 1, Role::value, {}, {0, -1, kInf, -kInf, NAN}}},
                       call,
                       oracle_of(f, size_of(f)),
                       false,
                       false,
                       false});
  for (const size_t i : {size_t(0), size_t(1), c.samples.size() - 1})
    c.samples[i].torch = "torch.exp2(a)";
  const Apply apply = [](const Tensor& x, const Tensor&) { (void)exp2(x); };
  c.errors = {undefined_operand("exp2", apply),
              storage_dtype("exp2", "i16 is for storage only", apply)};
  rows.push_back(std::move(c));
}

const std::pair<Shape, Shape> kPairs[] = {{{3, 5}, {3, 5}},  {{2, 3, 4}, {3, 1}}, {{5}, {3, 5}},
                                          {{}, {4}},         {{0, 3}, {1, 3}},    {{33}, {33}},
                                          {{3, 1}, {1, 31}}, {{3, 257}, {3, 257}}};

void add_xlogy(std::vector<OpCase>& rows) {
  OpCase c{"xlogy", {"log", "mul", "where"}, kNumbers, ResultType::floating};
  const Formula f = [](const Values& v) {
    return v[0] == 0 && v[1] == v[1] ? 0 : v[0] * std::log(v[1]);
  };
  const CheckedFunction call = [](std::span<const Tensor> in) { return xlogy(in[0], in[1]); };
  for (const auto& [a, b] : kPairs)
    c.samples.push_back({"", {{a}, {b, 0.3, 4}}, call, oracle_of(f, size_of(f))});
  c.samples.push_back({"special values",
                       {{{9}, 0, 1, Role::value, {}, {0, 0, 0, 0, 2, 2, -2, NAN, kInf}},
                        {{9}, 0, 1, Role::value, {}, {0, kInf, NAN, -1, 0, kInf, 0, 1, 3}}},
                       call,
                       oracle_of(f, size_of(f)),
                       false,
                       false,
                       false});
  for (const size_t i : {size_t(0), size_t(1), size_t(2), c.samples.size() - 1})
    c.samples[i].torch = "torch.xlogy(a, b)";
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)xlogy(a, b); };
  c.errors = {undefined_operand("xlogy", apply), two_devices("xlogy", apply),
              storage_dtype("xlogy", "i16 is for storage only", apply),
              no_broadcast("xlogy", apply)};
  rows.push_back(std::move(c));
}

using Addc = Tensor (*)(const In&, const In&, const In&, const AddcOptions&);
void add_addc(std::vector<OpCase>& rows, OpCase c, Addc op, bool divides) {
  const std::vector<std::vector<Shape>> shapes = {
      {{3, 5}, {3, 5}, {3, 5}}, {{2, 3, 4}, {3, 1}, {}}, {{4}, {3, 1}, {2, 1, 1}},
      {{0, 3}, {3}, {0, 3}},    {{33}, {33}, {33}},      {{3, 257}, {257}, {3, 257}}};
  for (const int value : {1, -3})
    for (const std::vector<Shape>& s : shapes) {
      const auto term = [divides, value](const Values& v) {
        return value * (divides ? v[1] / v[2] : v[1] * v[2]);
      };
      c.samples.push_back(
          {str("value ", value),
           {{s[0]}, {s[1]}, divides ? Input{s[2], 0.4, 3} : Input{s[2]}},
           [op, value](std::span<const Tensor> in) {
             return op(in[0], in[1], in[2], {.value = value});
           },
           oracle_of([term](const Values& v) { return v[0] + term(v); },
                     [term](const Values& v) { return std::fabs(v[0]) + std::fabs(term(v)); })});
      c.samples.back().torch = str("torch.", c.name, "(a, b, c, value=", value, ")");
      // Unsigned numbers would wrap below 0.
      c.samples.back().integers = value > 0;
    }
  const Apply apply = [op](const Tensor& a, const Tensor& b) { (void)op(a, b, b, {}); };
  c.errors = {undefined_operand(c.name, apply), two_devices(c.name, apply),
              storage_dtype(c.name, "i16 is for storage only", apply), no_broadcast(c.name, apply)};
  rows.push_back(std::move(c));
}

void add_isclose(std::vector<OpCase>& rows) {
  OpCase c{"isclose", {"abs", "le", "eq", "isfinite"}, kAll, ResultType::boolean};
  c.mostly_constant = true;
  const auto sample = [&](const IscloseOptions& o, std::vector<Input> in) {
    const Formula f = [o](const Values& v) {
      const double distance = std::fabs(v[0] - v[1]);
      const bool near = std::isfinite(distance) && distance <= o.atol + o.rtol * std::fabs(v[1]);
      return double(near || v[0] == v[1] || (o.equal_nan && v[0] != v[0] && v[1] != v[1]));
    };
    Sample s{str("rtol ", o.rtol, " atol ", o.atol), std::move(in),
             [o](std::span<const Tensor> t) { return isclose(t[0], t[1], o); },
             oracle_of(f, size_of(f))};
    s.torch = str("torch.isclose(a, b, rtol=", o.rtol, ", atol=", o.atol,
                  ", equal_nan=", o.equal_nan ? "True" : "False", ")");
    c.samples.push_back(std::move(s));
  };
  const auto whole = [](const Shape& s) { return Input{s, 0, 4, Role::value, {}, {}, true, true}; };
  for (const auto& [a, b] : kPairs) {
    sample({}, {whole(a), whole(b)});
    sample({.rtol = 0.5, .atol = 0.25}, {whole(a), whole(b)});
  }
  const Values p{kInf, kInf, -kInf, NAN, NAN, 1, 1, 1024, 1},
      q{kInf, -kInf, 1, NAN, 1, kInf, 1, 1025, 1.5};
  for (const bool equal_nan : {false, true}) {
    sample({.rtol = 0.01, .equal_nan = equal_nan},
           {{{9}, 0, 1, Role::value, {}, p}, {{9}, 0, 1, Role::value, {}, q}});
    c.samples.back().layouts = c.samples.back().integers = false;
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)isclose(a, b); };
  c.errors = {undefined_operand("isclose", apply), two_devices("isclose", apply),
              no_broadcast("isclose", apply),
              error_input<DtypeError>("dtypes", "[isclose] operands differ in dtype",
                                      [](Device d) {
                                        const Tensor x = ones({2}, {.device = d});
                                        (void)isclose(x, x.to(f64));
                                      }),
              error_input<UsageError>(
                  "tolerance", "[isclose] rtol and atol must be at least 0, got -1 and 1e-08",
                  [](Device d) {
                    const Tensor x = ones({2}, {.device = d});
                    (void)isclose(x, x, {.rtol = -1});
                  })};
  rows.push_back(std::move(c));
}

void add_composite_pointwise_cases(std::vector<OpCase>& rows) {
  add_exp2(rows);
  add_xlogy(rows);
  add_addc(rows, {"addcmul", {"mul", "add"}, kNumbers}, addcmul, false);
  add_addc(rows, {"addcdiv", {"div", "add"}, kNumbers, ResultType::floating}, addcdiv, true);
  add_isclose(rows);
}

const CaseFile file{add_composite_pointwise_cases};

}  // namespace
}  // namespace wt_test
