// Rows of the elementwise operators: shapes, dtypes, contracts and errors follow from the list in
// kernels/pointwise/pointwise_list.h; an operator adds one line here with its formula in double.
#include <limits>
#include <map>
#include <set>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double sigma(double x) { return 1 / (1 + std::exp(-x)); }
double hard_sigma(double x) { return std::min(std::max(x + 3, x != x ? x : 0.0), 6.0) / 6; }

struct Unary {
  double (*value)(double);
  double low, high;
  double terms = kTermsOfFunction;
  double (*magnitude)(double) = nullptr;  // what rounding errors are relative to; null: |value|
  std::vector<double> kinks{};
  bool special = true;  // also 0, -0, inf, -inf and NaN
};
double absolute(double x) { return std::fabs(x); }

// --- one line an operator ---
double softsign_of(double x) {
  return std::isinf(x) ? std::copysign(1, x) : x / (1 + std::fabs(x));
}

const std::map<std::string, Unary> kUnary{
    {"acos", {[](double x) { return std::acos(x); }, -0.9, 0.9}},
    {"acosh", {[](double x) { return std::acosh(x); }, 1.2, 4}},
    {"asin", {[](double x) { return std::asin(x); }, -0.9, 0.9}},
    {"asinh", {[](double x) { return std::asinh(x); }, -3, 3}},
    {"atan", {[](double x) { return std::atan(x); }, -3, 3}},
    {"atanh", {[](double x) { return std::atanh(x); }, -0.8, 0.8}},
    {"cosh", {[](double x) { return std::cosh(x); }, -3, 3}},
    {"log10", {[](double x) { return std::log10(x); }, 0.1, 5}},
    {"log2", {[](double x) { return std::log2(x); }, 0.1, 5}},
    {"relu6",
     {[](double x) { return std::min(std::max(x, x != x ? x : 0.0), 6.0); },
      -4,
      10,
      1,
      nullptr,
      {0, 6}}},
    {"softsign", {softsign_of, -3, 3, 4, nullptr, {0}}},
    {"bitwise_not", {[](double x) { return double(~i64(x)); }, -20, 20, 4, nullptr, {}, false}},
    {"abs", {[](double x) { return std::fabs(x); }, -2, 2, 4, nullptr, {0}}},
    {"cos", {[](double x) { return std::cos(x); }, -3, 3, 4, nullptr, {}, false}},
    {"ceil", {[](double x) { return std::ceil(x); }, -2.9, 2.9, 4, nullptr, {-2, -1, 0, 1, 2}}},
    {"erf", {[](double x) { return std::erf(x); }, -3, 3}},
    {"exp", {[](double x) { return std::exp(x); }, -4, 4}},
    {"expm1", {[](double x) { return std::expm1(x); }, -2, 2}},
    {"floor", {[](double x) { return std::floor(x); }, -2.9, 2.9, 4, nullptr, {-2, -1, 0, 1, 2}}},
    {"gelu", {[](double x) { return x * phi(x); }, -4, 4, 8, absolute, {}, false}},
    {"gelu_tanh",
     {[](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      },
      -4,
      4,
      8,
      absolute,
      {},
      false}},
    {"hardsigmoid", {hard_sigma, -5, 5, 8, nullptr, {-3, 3}}},
    {"hardswish", {[](double x) { return x * hard_sigma(x); }, -5, 5, 8, nullptr, {-3, 3}, false}},
    {"log", {[](double x) { return std::log(x); }, 0.1, 5}},
    {"log1p", {[](double x) { return std::log1p(x); }, -0.5, 3}},
    {"mish",
     {[](double x) { return x * std::tanh(std::log1p(std::exp(x))); },
      -5,
      5,
      12,
      nullptr,
      {},
      false}},
    {"reciprocal", {[](double x) { return 1 / x; }, 0.3, 3}},
    {"relu", {[](double x) { return x > 0 || x != x ? x : 0; }, -2, 2, 4, nullptr, {0}}},
    {"round",
     {[](double x) { return std::nearbyint(x); },
      -2.9,
      2.9,
      4,
      nullptr,
      {-2.5, -1.5, -.5, .5, 1.5, 2.5}}},
    {"rsqrt", {[](double x) { return 1 / std::sqrt(x); }, 0.2, 4, 8}},
    {"sigmoid", {sigma, -5, 5, 8}},
    {"silu", {[](double x) { return x * sigma(x); }, -5, 5, 8, nullptr, {}, false}},
    {"sin", {[](double x) { return std::sin(x); }, -3, 3, 4, nullptr, {}, false}},
    {"sinh", {[](double x) { return std::sinh(x); }, -3, 3}},
    {"sqrt", {[](double x) { return std::sqrt(x); }, 0.1, 5}},
    {"square", {[](double x) { return x * x; }, -2, 2}},
    {"tan", {[](double x) { return std::tan(x); }, -1.2, 1.2, 4, nullptr, {}, false}},
    {"tanh", {[](double x) { return std::tanh(x); }, -3, 3}},
    {"isfinite", {[](double x) { return double(std::isfinite(x)); }, -2, 2}},
    {"isinf", {[](double x) { return double(std::isinf(x)); }, -2, 2}},
    {"isnan", {[](double x) { return double(std::isnan(x)); }, -2, 2}},
    {"logical_not", {[](double x) { return double(x == 0); }, 0, 3}},
    {"neg", {[](double x) { return -x; }, -2, 2}},
    {"sign", {[](double x) { return double((x > 0) - (x < 0)); }, -2, 2, 4, nullptr, {0}}},
    {"trunc", {[](double x) { return std::trunc(x); }, -2.9, 2.9, 4, nullptr, {-2, -1, 1, 2}}},
};
// Their derivatives are differences from 1.
const std::set<std::string> kSaturating{"gelu", "gelu_tanh", "mish", "sigmoid", "silu", "tanh"};
// PyTorch has these in torch.nn.functional, and one under another name.
const std::set<std::string> kFunctional{"gelu", "hardswish", "mish", "relu6", "silu", "softsign"};
// Of whole numbers in their range the result is a constant.
const std::set<std::string> kFractions{"acos", "asin", "atanh"};
std::string torch_name(const std::string& op) {
  // PyTorch's own gradient has 1 / 6 in single precision.
  if (op == "hardsigmoid") return "torch.clamp(a + 3, 0, 6) / 6";
  if (op == "gelu_tanh") return "F.gelu(a, approximate='tanh')";
  return (kFunctional.count(op) ? "F." : "torch.") + op + "(a)";
}

std::string torch_name_of_two(const std::string& op) {
  if (op == "div_trunc") return "torch.div(a, b, rounding_mode='trunc')";
  if (op == "floor_divide") return "torch.div(a, b, rounding_mode='floor')";
  return "torch." + op + "(a, b)";
}

struct Binary {
  double (*value)(double, double);
  double low, high;
  double terms = kTermsOfFunction;
};
const std::map<std::string, Binary> kBinary{
    {"add", {[](double a, double b) { return a + b; }, -2, 2}},
    {"sub", {[](double a, double b) { return a - b; }, -2, 2}},
    {"mul", {[](double a, double b) { return a * b; }, -2, 2}},
    {"atan2", {[](double a, double b) { return std::atan2(a, b); }, 0.4, 3}},
    {"div", {[](double a, double b) { return a / b; }, 0.4, 3}},
    {"pow", {[](double a, double b) { return std::pow(a, b); }, 0.4, 3, 8}},
    {"maximum", {[](double a, double b) { return a > b ? a : b; }, -2, 2}},
    {"minimum", {[](double a, double b) { return a < b ? a : b; }, -2, 2}},
    {"logaddexp",
     {[](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }, 0.4, 3, 8}},
    {"remainder", {[](double a, double b) { return std::fmod(a, b); }, 1, 6}},
    {"fmod", {[](double a, double b) { return std::fmod(a, b); }, 1, 6}},
    {"floor_divide", {[](double a, double b) { return std::floor(a / b); }, 1, 6}},
    {"div_trunc", {[](double a, double b) { return std::trunc(a / b); }, 1, 6}},
    {"clamp_min", {[](double a, double b) { return std::max(a, b); }, -2, 2}},
    {"clamp_max", {[](double a, double b) { return std::min(a, b); }, -2, 2}},
    {"bitwise_and", {[](double a, double b) { return double(i64(a) & i64(b)); }, -20, 20}},
    {"bitwise_or", {[](double a, double b) { return double(i64(a) | i64(b)); }, -20, 20}},
    {"bitwise_xor", {[](double a, double b) { return double(i64(a) ^ i64(b)); }, -20, 20}},
    {"bitwise_left_shift", {[](double a, double b) { return a * std::exp2(b); }, 0, 3}},
    {"bitwise_right_shift",
     {[](double a, double b) { return std::floor(a / std::exp2(b)); }, 0, 3}},
    {"eq", {[](double a, double b) { return double(a == b); }, -2, 2}},
    {"ne", {[](double a, double b) { return double(a != b); }, -2, 2}},
    {"lt", {[](double a, double b) { return double(a < b); }, -2, 2}},
    {"le", {[](double a, double b) { return double(a <= b); }, -2, 2}},
    {"gt", {[](double a, double b) { return double(a > b); }, -2, 2}},
    {"ge", {[](double a, double b) { return double(a >= b); }, -2, 2}},
    {"logical_and", {[](double a, double b) { return double(a && b); }, 0, 2}},
    {"logical_xor", {[](double a, double b) { return double((a != 0) != (b != 0)); }, 0, 2}},
    {"logical_or", {[](double a, double b) { return double(a || b); }, 0, 2}},
};

// --- what the entry itself says ---
const std::vector<DType> kIntegers{DType::i64, DType::i32, DType::u8};
const std::vector<DType> kBits{DType::i64, DType::i32, DType::u8, DType::boolean};
bool of_integers(const OpCase& c) { return c.dtypes[0] == DType::i64; }
ErrorInput no_floats(const OpCase& c, const Apply& apply) {
  return error_input<DtypeError>("floats", "[" + c.name + "] expected integers", [apply](Device d) {
    const Tensor x = ones({2}, {.device = d});
    apply(x, x);
  });
}

template <class F>
void entry_facts(OpCase& c) {
  c.dtypes = F::kDomain == pw::Domain::any        ? kAll
             : F::kDomain == pw::Domain::bits     ? kBits
             : F::kDomain == pw::Domain::integers ? kIntegers
                                                  : kNumbers;
  c.result = F::kPredicate                        ? ResultType::boolean
             : F::kDomain == pw::Domain::floating ? ResultType::floating
                                                  : ResultType::promoted;
  c.contracts = {c.name};
  c.mostly_constant = F::kPredicate;
  c.cancels = kSaturating.count(c.name) > 0;
}

Oracle oracle_of(const Unary& u) {
  return [u](const std::vector<Array>& in) {
    Array r{in[0].shape, {}, u.terms};
    for (double x : in[0].v) {
      r.v.push_back(u.value(x));
      r.magnitude.push_back(std::fabs(u.magnitude ? u.magnitude(x) : r.v.back()));
    }
    return r;
  };
}
Oracle oracle_of(const Binary& f) {
  return [f](const std::vector<Array>& in) {
    Array r = filled(broadcast(in[0].shape, in[1].shape), [&](const std::vector<i64>& i) {
      return f.value(at(in[0], i), at(in[1], i));
    });
    r.terms = f.terms;
    return r;
  };
}

Apply apply_first(Tensor (*op)(const In&)) {
  return [op](const Tensor& a, const Tensor&) { (void)op(a); };
}

void add_unary(std::vector<OpCase>& rows, OpCase c, Tensor (*op)(const In&), bool fused) {
  const auto found = kUnary.find(c.name);
  if (found == kUnary.end()) return;  // no row: the suite says so
  const Unary& u = found->second;
  if (fused) c.contracts.push_back(c.name + "_backward");
  if (c.name == "bitwise_not") c.dtypes = {DType::i64, DType::i32};  // the oracle knows no sizes
  const CheckedFunction call = [op](std::span<const Tensor> in) { return op(in[0]); };
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{1}, Shape{33},
                         Shape{3, 257}, Shape{0, 3}, Shape{1, 1, 7, 31}}) {
    // A single element must not lie where the function is a line; isnan and isinf need some.
    Values given;
    if (count(s) == 1 && !u.kinks.empty()) given = {-0.7};
    const bool rare = c.name == "isnan" || c.name == "isinf";
    for (i64 i = 0; rare && i < count(s); ++i) given.push_back(i % 2 ? 1.5 : i % 4 ? NAN : kInf);
    c.samples.push_back({"",
                         {{s, u.low, u.high, Role::value, u.kinks, given, true, c.mostly_constant}},
                         call,
                         oracle_of(u)});
    c.samples.back().integers = (!rare || count(s) == 0) && kFractions.count(c.name) == 0;
  }
  if (u.special) {
    const std::vector<double> v{0.0, 1, kInf, NAN, u.low < 0 ? -kInf : kInf};
    c.samples.push_back({"special values",
                         {{{5}, 0, 1, Role::value, {}, v}},
                         call,
                         oracle_of(u),
                         false,
                         false,
                         false});
  }
  for (size_t i : {size_t(0), size_t(1), c.samples.size() - 1})
    c.samples[i].torch = torch_name(c.name);
  if (c.name == "softsign") c.samples.back().torch = "";  // PyTorch's of infinity is NaN
  c.errors = {undefined_operand(c.name, apply_first(op)),
              storage_dtype(c.name, "i16 is for storage only", apply_first(op))};
  if (of_integers(c)) c.errors.push_back(no_floats(c, apply_first(op)));
  if (c.dtypes.size() == kNumbers.size() && c.result == ResultType::promoted)
    c.errors.push_back(error_input<DtypeError>(
        "bool", "[" + c.name + "] bool operands have no such operation",
        [op](Device d) { (void)op(ones({2}, {.dtype = DType::boolean, .device = d})); }));
  rows.push_back(std::move(c));
}

void add_binary(std::vector<OpCase>& rows, OpCase c, Tensor (*op)(const Operand&, const Operand&),
                bool fused) {
  const auto found = kBinary.find(c.name);
  if (found == kBinary.end()) return;
  const Binary& f = found->second;
  if (fused)
    c.contracts.insert(c.contracts.end(), {c.name + "_backward_a", c.name + "_backward_b"});
  const CheckedFunction call = [op](std::span<const Tensor> in) { return op(in[0], in[1]); };
  const auto input = [&](const Shape& s) {
    return Input{s, f.low, f.high, Role::value, {}, {}, true, c.mostly_constant};
  };
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 5}, {3, 5}},     {{2, 3, 4}, {3, 1}}, {{5}, {3, 5}}, {{}, {4}},   {{0, 3}, {1, 3}},
      {{3, 257}, {3, 257}}, {{3, 1}, {1, 31}},   {{1}, {}},     {{33}, {33}}};
  for (const auto& [a, b] : shapes)
    c.samples.push_back({"", {input(a), input(b)}, call, oracle_of(f)});
  for (size_t i : {size_t(0), size_t(1), size_t(2)}) c.samples[i].torch = torch_name_of_two(c.name);
  // Beside a number: halves, which every float has exactly.
  const double number = f.low > 0 ? 1.5 : -0.5;
  const double dividend = f.low >= 1 ? 7.5 : number;  // quotients beyond 0
  const auto with_number = [&](const std::string& label, bool first, double number) {
    c.samples.push_back({label,
                         {input({3, 5})},
                         [op, number, first](std::span<const Tensor> in) {
                           return first ? op(number, in[0]) : op(in[0], number);
                         },
                         [f, number, first](const std::vector<Array>& in) {
                           Array r{in[0].shape, {}, f.terms};
                           for (double x : in[0].v)
                             r.v.push_back(first ? f.value(number, x) : f.value(x, number));
                           return r;
                         },
                         true,
                         true,
                         false});
    c.samples.back().second_is_zero = c.name == "mul" || (c.name == "div" && !first);
  };
  if (!of_integers(c)) {
    with_number("number first", true, dividend);
    with_number("number second", false, number);
  }
  const Apply apply = [op](const Tensor& a, const Tensor& b) { (void)op(a, b); };
  c.errors = {
      undefined_operand(c.name, apply), two_devices(c.name, apply),
      storage_dtype(c.name, "i16 is for storage only", apply),
      error_input<ShapeError>(
          "shapes", "[" + c.name + "] shapes [2, 3] and [4] do not broadcast",
          [op, t = of_integers(c) ? DType::i64 : f32](Device d) {
            (void)op(ones({2, 3}, {.dtype = t, .device = d}), ones({4}, {.dtype = t, .device = d}));
          })};
  if (of_integers(c)) c.errors.push_back(no_floats(c, apply));
  rows.push_back(std::move(c));
}

// --- declared by hand ---

void add_where(std::vector<OpCase>& rows, OpCase c) {
  c.result = ResultType::promoted;
  const auto oracle = [](const std::vector<Array>& in) {
    const Shape s = broadcast(broadcast(in[0].shape, in[1].shape), in[2].shape);
    return filled(s, [&](const std::vector<i64>& i) {
      return at(in[0], i) != 0 ? at(in[1], i) : at(in[2], i);
    });
  };
  const std::vector<std::vector<Shape>> shapes = {{{3, 5}, {3, 5}, {3, 5}},
                                                  {{2, 3, 4}, {3, 1}, {}},
                                                  {{4}, {3, 1}, {2, 1, 1}},
                                                  {{0, 3}, {3}, {0, 3}},
                                                  {{3, 257}, {257}, {3, 257}}};
  for (const std::vector<Shape>& s : shapes)
    c.samples.push_back({"",
                         {truth_input(s[0]), {s[1]}, {s[2]}},
                         [](std::span<const Tensor> in) { return where(in[0], in[1], in[2]); },
                         oracle});
  c.samples.push_back({"number second",
                       {truth_input({3, 5}), {{3, 5}}},
                       [](std::span<const Tensor> in) { return where(in[0], in[1], 0.5); },
                       [](const std::vector<Array>& in) {
                         return filled(in[0].shape, [&](const std::vector<i64>& i) {
                           return at(in[0], i) != 0 ? at(in[1], i) : 0.5;
                         });
                       },
                       true,
                       true,
                       false});
  c.errors = {
      undefined_operand("where", [](const Tensor& a, const Tensor& b) { (void)where(a, b, b); }),
      error_input<DtypeError>("condition", "[where] the condition must be bool, got f32",
                              [](Device d) {
                                const Tensor x = ones({2}, {.device = d});
                                (void)where(x, x, x);
                              }),
      error_input<ShapeError>(
          "shapes", "[where] shapes [2] and [3] do not broadcast", [](Device d) {
            const Tensor x = ones({3}, {.device = d});
            (void)where(ones({2}, {.dtype = DType::boolean, .device = d}), x, x);
          })};
  rows.push_back(std::move(c));
}

void add_lerp(std::vector<OpCase>& rows, OpCase c) {
  c.dtypes = kFloats;
  const auto value = [](double a, double b, double w) { return a + w * (b - a); };
  const auto oracle = [value](const std::vector<Array>& in) {
    const Shape s = broadcast(broadcast(in[0].shape, in[1].shape), in[2].shape);
    Array r = filled(s, [&](const std::vector<i64>& i) {
      return value(at(in[0], i), at(in[1], i), at(in[2], i));
    });
    r.terms = kTermsOfFormula;
    for (double& m : r.magnitude = r.v) m = 4;  // |a| + |w| (|a| + |b|) is below 6
    return r;
  };
  const std::vector<std::vector<Shape>> shapes = {{{3, 5}, {3, 5}, {3, 5}},
                                                  {{2, 3, 4}, {3, 1}, {}},
                                                  {{4}, {3, 1}, {2, 1, 1}},
                                                  {{0, 3}, {3}, {0, 3}},
                                                  {{3, 257}, {257}, {3, 257}}};
  for (const std::vector<Shape>& s : shapes)
    c.samples.push_back({"",
                         {{s[0]}, {s[1]}, {s[2], 0.01, 0.99}},
                         [](std::span<const Tensor> in) { return lerp(in[0], in[1], in[2]); },
                         oracle});
  c.samples[0].torch = c.samples[1].torch = "torch.lerp(a, b, c)";
  for (double w : {0.25, 0.75, 1.5})
    c.samples.push_back({str("weight ", w),
                         {{{3, 5}}, {{5}}},
                         [w](std::span<const Tensor> in) { return lerp(in[0], in[1], w); },
                         [w, value](const std::vector<Array>& in) {
                           Array r = filled(in[0].shape, [&](const std::vector<i64>& i) {
                             return value(at(in[0], i), at(in[1], i), w);
                           });
                           r.terms = kTermsOfFormula;
                           for (double& m : r.magnitude = r.v) m = 6;
                           return r;
                         }});
  for (size_t i = 5; i < c.samples.size(); ++i) {
    c.samples[i].second_is_zero = true;  // by a number: linear
    c.samples[i].torch = "torch.lerp(a, b, " + c.samples[i].label.substr(7) + ")";
  }
  c.errors = {
      undefined_operand("lerp", [](const Tensor& a, const Tensor& b) { (void)lerp(a, b, 0.5); }),
      error_input<DtypeError>("integers", "[lerp] expected floats, got i64",
                              [](Device d) {
                                const Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
                                (void)lerp(x, x, 0.5);
                              }),
      error_input<ShapeError>("shapes", "[lerp] shapes [3] and [2] do not broadcast", [](Device d) {
        const Tensor x = ones({3}, {.device = d});
        (void)lerp(x, x, ones({2}, {.device = d}));
      })};
  rows.push_back(std::move(c));
}

void add_pointwise_cases(std::vector<OpCase>& rows) {
  OpCase c;
#define WT_FACTS(op_name, F) \
  c = OpCase{};              \
  c.name = #op_name;         \
  entry_facts<pw::F>(c);
#define WT_UNARY_ROW(fused, op_name, F) \
  WT_FACTS(op_name, F)                  \
  add_unary(rows, c, wt::op_name, fused);
#define WT_BINARY_ROW(fused, op_name, F) \
  WT_FACTS(op_name, F)                   \
  add_binary(rows, c, wt::op_name, fused);
  WT_POINTWISE_UNARY(WT_UNARY_ROW, true)
  WT_POINTWISE_UNARY_PLAIN(WT_UNARY_ROW, false)
  WT_POINTWISE_BINARY(WT_BINARY_ROW, true)
  WT_POINTWISE_BINARY_PLAIN(WT_BINARY_ROW, false)
  WT_FACTS(lerp, Lerp)
  add_lerp(rows, c);
  WT_FACTS(where, Where)
  add_where(rows, c);
}

const CaseFile file{add_pointwise_cases};

}  // namespace
}  // namespace wt_test
