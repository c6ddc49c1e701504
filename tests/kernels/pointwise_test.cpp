// Elementwise operators: every entry of the list on every device and variant against the formula in
// double, layouts, dtypes and promotion, both derivatives, and PyTorch's conventions at the edges.
#include "warptape/kernels/pointwise.h"

#include <cmath>
#include <functional>
#include <limits>

#include "warptape/autograd/engine.h"
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;

double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double sigma(double x) { return 1 / (1 + std::exp(-x)); }

struct UnaryCase {
  const char* name;
  Tensor (*op)(const In&);
  double (*value)(double);
  double low, high;  // where the inputs lie
};
const UnaryCase kUnary[] = {
    {"abs", wt::abs, [](double x) { return std::fabs(x); }, -2, 2},
    {"cos", wt::cos, [](double x) { return std::cos(x); }, -3, 3},
    {"erf", wt::erf, [](double x) { return std::erf(x); }, -3, 3},
    {"exp", wt::exp, [](double x) { return std::exp(x); }, -4, 4},
    {"gelu", wt::gelu, [](double x) { return x * phi(x); }, -4, 4},
    {"gelu_tanh", wt::gelu_tanh,
     [](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     -4, 4},
    {"log", wt::log, [](double x) { return std::log(x); }, 0.1, 5},
    {"reciprocal", wt::reciprocal, [](double x) { return 1 / x; }, 0.3, 3},
    {"relu", wt::relu, [](double x) { return x > 0 ? x : 0; }, -2, 2},
    {"rsqrt", wt::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.2, 4},
    {"sigmoid", wt::sigmoid, sigma, -5, 5},
    {"silu", wt::silu, [](double x) { return x * sigma(x); }, -5, 5},
    {"sin", wt::sin, [](double x) { return std::sin(x); }, -3, 3},
    {"sqrt", wt::sqrt, [](double x) { return std::sqrt(x); }, 0.1, 5},
    {"square", wt::square, [](double x) { return x * x; }, -2, 2},
    {"tanh", wt::tanh, [](double x) { return std::tanh(x); }, -3, 3},
    {"neg", wt::neg, [](double x) { return -x; }, -2, 2},
    {"sign", wt::sign, [](double x) { return double((x > 0) - (x < 0)); }, -2, 2},
};
struct BinaryCase {
  const char* name;
  Tensor (*op)(const Operand&, const Operand&);
  double (*value)(double, double);
  double low, high;
};
const BinaryCase kBinary[] = {
    {"add", wt::add, [](double a, double b) { return a + b; }, -2, 2},
    {"sub", wt::sub, [](double a, double b) { return a - b; }, -2, 2},
    {"mul", wt::mul, [](double a, double b) { return a * b; }, -2, 2},
    {"div", wt::div, [](double a, double b) { return a / b; }, 0.4, 2},
    {"pow", wt::pow, [](double a, double b) { return std::pow(a, b); }, 0.3, 3},
    {"maximum", wt::maximum, [](double a, double b) { return a > b ? a : b; }, -2, 2},
    {"minimum", wt::minimum, [](double a, double b) { return a < b ? a : b; }, -2, 2},
};
const BinaryCase kComparisons[] = {
    {"eq", wt::eq, [](double a, double b) { return double(a == b); }, 0, 3},
    {"ne", wt::ne, [](double a, double b) { return double(a != b); }, 0, 3},
    {"lt", wt::lt, [](double a, double b) { return double(a < b); }, 0, 3},
    {"le", wt::le, [](double a, double b) { return double(a <= b); }, 0, 3},
    {"gt", wt::gt, [](double a, double b) { return double(a > b); }, 0, 3},
    {"ge", wt::ge, [](double a, double b) { return double(a >= b); }, 0, 3},
    {"logical_and", wt::logical_and, [](double a, double b) { return double(a && b); }, 0, 2},
    {"logical_or", wt::logical_or, [](double a, double b) { return double(a || b); }, 0, 2},
};

// Values in [low, high) that no rounding of dtypes changes much, the same on all devices.
std::vector<double> numbers(i64 n, double low, double high, u64 salt = 0) {
  std::vector<double> v;
  for (i64 i = 0; i < n; ++i)
    v.push_back(low + (high - low) * double(mix64(u64(i) * 7919 + salt + 1) >> 40) * 0x1p-24);
  return v;
}
Tensor make(std::vector<double> v, const Shape& shape, DType t, Device d) {
  return reshape(tensor(v), shape).to(t).to(d);
}

std::vector<Device> devices() {
  std::vector<Device> d{Device::cpu()};
  const auto built = [](DeviceKind k) {
    for (const ContractInfo& c : all_contracts())
      if (std::string(c.name) == "exp") return c.count(k) > 0;
    return false;
  };
  if (built(DeviceKind::simt)) d.push_back(Device::simt());
  if (built(DeviceKind::cuda) && cuda::is_available()) d.push_back(Device::cuda());
  return d;
}
// The variants of a contract on a device.
std::vector<const char*> variants(const std::string& contract, Device d) {
  std::vector<const char*> names;
  for (const ContractInfo& c : all_contracts())
    if (contract == c.name)
      for (int i = 0; i < c.count(d.kind); ++i) names.push_back(c.variant(d.kind, i).name);
  return names;
}

// Relative to max(1, |expected|): results of single operations, so a few units in the last place.
double tolerance(DType t) {
  return t == DType::f64 ? 1e-13 : t == DType::f32 ? 1e-6 : t == DType::f16 ? 2e-3 : 1.6e-2;
}
void check_values(const Tensor& y, const std::vector<double>& expected, double tol) {
  const std::vector<double> got = y.to_vector<double>();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], expected[i]);
    const bool same =
        got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])) ||
        std::fabs(got[i] - expected[i]) <= tol * std::max(1.0, std::fabs(expected[i]));
    if (!same) CHECK(same);
  }
}

// A [2, 37] tensor of the values in several layouts.
struct Layout {
  const char* name;
  Tensor (*make)(const std::vector<double>&, DType, Device);
};
const Layout kLayouts[] = {
    {"dense",
     [](const std::vector<double>& v, DType t, Device d) {
       return make(v, {2, 37}, t, d);
     }},
    {"transposed",
     [](const std::vector<double>& v, DType t, Device d) {
       return make(v, {2, 37}, t, d).transpose(0, 1).contiguous().transpose(0, 1);
     }},
    {"every third",
     [](const std::vector<double>& v, DType t, Device d) {
       std::vector<double> wide(v.size() * 3, 7.0);
       for (size_t i = 0; i < v.size(); ++i) wide[3 * i + 1] = v[i];
       return make(wide, {2, 37, 3}, t, d).select(2, 1);
     }},
    {"rows apart",
     [](const std::vector<double>& v, DType t, Device d) {
       std::vector<double> wide(2 * 41, 7.0);
       for (size_t i = 0; i < 2; ++i)
         for (size_t k = 0; k < 37; ++k) wide[41 * i + 3 + k] = v[37 * i + k];
       return make(wide, {2, 41}, t, d).slice(1, {3, 40});
     }},
};

}  // namespace

TEST_CASE("pointwise: one-operand entries on every device, variant, dtype and layout") {
  for (const UnaryCase& c : kUnary)
    for (const Device d : devices())
      for (const char* variant : variants(c.name, d)) {
        const VariantScope scope(c.name, variant);
        for (const DType t : {f64, f32, f16, bf16})
          for (const Layout& layout : kLayouts) {
            CAPTURE(c.name, to_string(d), variant, dtype_name(t), layout.name);
            const Tensor x = layout.make(numbers(74, c.low, c.high), t, d);
            std::vector<double> expected = x.to_vector<double>();
            for (double& v : expected) v = c.value(v);
            const Tensor y = c.op(x);
            CHECK(y.dtype() == t);
            check_values(y, expected, tolerance(t));
          }
      }
}

TEST_CASE("pointwise: two-operand entries on every device, variant, dtype and layout") {
  using Cases = std::span<const BinaryCase>;
  for (const Cases cases : {Cases(kBinary), Cases(kComparisons)})
    for (const BinaryCase& c : cases) {
      const bool compares = cases.data() == kComparisons;
      for (const Device d : devices())
        for (const char* variant : variants(c.name, d)) {
          const VariantScope scope(c.name, variant);
          for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
            if (!is_floating(t) && std::string(c.name) == "div") continue;
            for (const Layout& layout : kLayouts) {
              CAPTURE(c.name, to_string(d), variant, dtype_name(t), layout.name);
              const bool whole = !is_floating(t) || compares;
              std::vector<double> av = numbers(74, whole ? 0 : c.low, whole ? 5 : c.high, 1);
              std::vector<double> bv = numbers(74, whole ? 0 : c.low, whole ? 3 : c.high, 2);
              if (whole)
                for (size_t i = 0; i < av.size(); ++i)
                  av[i] = std::floor(av[i]) + std::floor(bv[i]), bv[i] = std::floor(bv[i]);
              const Tensor a = layout.make(av, t, d), b = make(bv, {2, 37}, t, d);
              const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
              std::vector<double> expected, swapped;
              for (size_t i = 0; i < x.size(); ++i) {
                expected.push_back(c.value(x[i], y[i]));
                swapped.push_back(c.value(x[i], y[i % 37]));
              }
              const Tensor r = c.op(a, b);
              CHECK(r.dtype() == (compares ? DType::boolean : t));
              check_values(r, expected, 2 * tolerance(t));
              check_values(c.op(a, b.select(0, 0)), swapped, 2 * tolerance(t));  // row broadcast
            }
          }
        }
    }
}

TEST_CASE("pointwise: broadcasting a column, one element and numbers") {
  for (const Device d : devices())
    for (const char* variant : variants("sub", d)) {
      const VariantScope scope("sub", variant);
      for (const DType t : {f32, f16, DType::i32}) {
        CAPTURE(to_string(d), variant, dtype_name(t));
        const Tensor a = make({0, 1, 2, 3, 4, 5}, {2, 3}, t, d);
        const Tensor column = make({10, 20}, {2, 1}, t, d);
        check_values(sub(a, column), {-10, -9, -8, -17, -16, -15}, 0);
        check_values(sub(column, a), {10, 9, 8, 17, 16, 15}, 0);
        check_values(sub(make({10, 20}, {2, 1}, t, d), make({1, 2, 3}, {3}, t, d)),
                     {9, 8, 7, 19, 18, 17}, 0);
        check_values(a - 1, {-1, 0, 1, 2, 3, 4}, 0);
        check_values(1 - a, {1, 0, -1, -2, -3, -4}, 0);
        check_values(a - make({2}, {}, t, d), {-2, -1, 0, 1, 2, 3}, 0);
        check_values(make({2}, {1, 1, 1}, t, d) - a, {2, 1, 0, -1, -2, -3}, 0);
        const Tensor empty = make({}, {0, 3}, t, d);
        CHECK(sub(empty, make({1, 2, 3}, {3}, t, d)).shape() == Shape{0, 3});
      }
    }
}

TEST_CASE("pointwise: sizes around the vector widths, and odd offsets") {
  for (const Device d : devices())
    for (const char* variant : variants("mul", d)) {
      const VariantScope scope("mul", variant);
      for (const DType t : {f64, f32, bf16, DType::u8})
        for (const i64 n : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 257}) {
          CAPTURE(to_string(d), variant, dtype_name(t), n);
          std::vector<double> a, b, expected;
          for (i64 i = 0; i <= n; ++i) {
            a.push_back(double(i % 13));
            b.push_back(double(i % 7));
            if (i > 0) expected.push_back(double((i % 13) * (i % 7)));
          }
          const Tensor x = make(a, {n + 1}, t, d).slice(0, {1, n + 1});
          const Tensor y = make(b, {n + 1}, t, d).slice(0, {1, n + 1});
          check_values(mul(x, y), expected, 0);
          check_values(mul(x.contiguous(), y.contiguous()), expected, 0);
        }
    }
}

TEST_CASE("pointwise: where selects, broadcasts and promotes") {
  for (const Device d : devices())
    for (const char* variant : variants("where", d)) {
      const VariantScope scope("where", variant);
      CAPTURE(to_string(d), variant);
      const Tensor c = gt(make({1, 0, 1, 0, 0, 1}, {2, 3}, f32, d), 0);
      for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
        const Tensor a = make({1, 2, 3, 4, 5, 6}, {2, 3}, t, d), b = make({7, 8, 9}, {3}, t, d);
        check_values(where(c, a, b), {1, 8, 3, 7, 8, 6}, 0);
        check_values(where(c, a, 0), {1, 0, 3, 0, 0, 6}, 0);
        check_values(where(c, 9, a), {9, 2, 9, 4, 5, 9}, 0);
        check_values(where(c.transpose(0, 1), a.transpose(0, 1), 0), {1, 0, 0, 0, 3, 6}, 0);
        CHECK(where(c, a, 0).dtype() == t);
      }
      check_values(where(c, true, false), {1, 0, 1, 0, 0, 1}, 0);
      CHECK(where(c, 1.5, 0).dtype() == f32);
      CHECK(where(c, 1, 0).dtype() == DType::i64);
      CHECK(where(c, true, false).dtype() == DType::boolean);
      CHECK(where(c, make({1}, {1}, f16, d), make({1}, {1}, DType::i64, d)).dtype() == f16);
      CHECK_THROWS_AS(where(make({1}, {1}, f32, d), 1, 2), DtypeError);
    }
}

TEST_CASE("pointwise: clamp on floats and integers") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    check_values(clamp(make({-2, -1, 0, 1, 2, kNan}, {6}, f32, d), -1, 1.5),
                 {-1, -1, 0, 1, 1.5, kNan}, 0);
    check_values(clamp(make({-2, 5, 9}, {3}, DType::i32, d), 0, 7), {0, 5, 7}, 0);
    check_values(clamp(make({1, 2}, {2}, f32, d), 3, 0), {0, 0}, 0);
    CHECK(clamp(make({1}, {1}, DType::i32, d), 0, 7).dtype() == DType::i32);
    CHECK(clamp(make({1}, {1}, DType::i32, d), 0, 0.5).dtype() == f32);
  }
}

TEST_CASE("pointwise: truth of numbers") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    const Tensor x = make({kNan, kInf, -kInf, 0, 1}, {5}, f32, d);
    check_values(isnan(x), {1, 0, 0, 0, 0}, 0);
    check_values(isfinite(x), {0, 0, 0, 1, 1}, 0);
    check_values(logical_not(x), {0, 0, 0, 1, 0}, 0);
    check_values(isfinite(x.to(f16)), {0, 0, 0, 1, 1}, 0);
    check_values(isnan(make({1, 2}, {2}, DType::i64, d)), {0, 0}, 0);
    const Tensor t = gt(make({1, 0}, {2}, f32, d), 0);
    check_values(logical_not(t), {0, 1}, 0);
    check_values(eq(x, x), {0, 1, 1, 1, 1}, 0);
    check_values(ne(x, x), {1, 0, 0, 0, 0}, 0);
    check_values(maximum(x, 0.5), {kNan, kInf, 0.5, 0.5, 1}, 0);
    check_values(minimum(0.5, x), {kNan, 0.5, -kInf, 0, 0.5}, 0);
    check_values(relu(x), {kNan, kInf, 0, 0, 1}, 0);
  }
}

TEST_CASE("pointwise: bool is a set, integers wrap") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    const Tensor a = gt(make({0, 0, 1, 1}, {4}, f32, d), 0);
    const Tensor b = gt(make({0, 1, 0, 1}, {4}, f32, d), 0);
    check_values(a + b, {0, 1, 1, 1}, 0);
    check_values(a * b, {0, 0, 0, 1}, 0);
    check_values(maximum(a, b), {0, 1, 1, 1}, 0);
    CHECK((a + b).dtype() == DType::boolean);
    CHECK((a + 1).dtype() == DType::i64);
    CHECK_THROWS_AS(a - b, DtypeError);
    CHECK_THROWS_AS(-a, DtypeError);
    check_values(make({250, 255}, {2}, DType::u8, d) + 10, {4, 9}, 0);
    check_values(neg(make({1}, {1}, DType::u8, d)), {255}, 0);
    check_values(make({2147483647}, {1}, DType::i32, d) + 1, {-2147483648.0}, 0);
    check_values(make({65536}, {1}, DType::i32, d) * 65536, {0}, 0);
    check_values(pow(make({3, -2, 0}, {3}, DType::i64, d), 3), {27, -8, 0}, 0);
    check_values(pow(make({1, -1, 2}, {3}, DType::i64, d), make({-3, -3, -1}, {3}, DType::i64, d)),
                 {1, -1, 0}, 0);
  }
}

TEST_CASE("pointwise: promotion as in PyTorch", "[wall][prologue]") {
  const auto t = [](DType d, const Shape& s = {2}) { return ones(s, {.dtype = d}); };
  CHECK((t(f32) + t(f64)).dtype() == f64);
  CHECK((t(f16) + t(bf16)).dtype() == f32);
  CHECK((t(f16) * t(DType::i64)).dtype() == f16);
  CHECK((t(DType::u8) + t(DType::i32)).dtype() == DType::i32);
  CHECK((t(DType::i32) / t(DType::i32)).dtype() == f32);
  CHECK((t(DType::i64) / 2).dtype() == f32);
  CHECK((t(DType::i32) + 1.5).dtype() == f32);
  CHECK((t(DType::i32) + 1).dtype() == DType::i32);
  CHECK((1.5 - t(f16)).dtype() == f16);
  CHECK((t(f16) + t(f64, {})).dtype() == f16);  // 0-d: category only
  CHECK((t(DType::i64) + t(f64, {})).dtype() == f64);
  CHECK((t(DType::i64, {}) + t(DType::i32)).dtype() == DType::i32);
  CHECK(exp(t(DType::i32)).dtype() == f32);
  CHECK(sqrt(gt(t(f32), 0)).dtype() == f32);
  CHECK(abs(t(DType::i32)).dtype() == DType::i32);
  CHECK(gt(t(DType::i32), 0.5).dtype() == DType::boolean);
  CHECK(eq(t(f16), t(DType::i64)).to_vector<bool>() == std::vector<bool>{true, true});
  const DefaultDtype wide(f64);
  CHECK((t(DType::i32) / 2).dtype() == f64);
  CHECK(exp(t(DType::i32)).dtype() == f64);
}

namespace {
std::string message(const std::function<Tensor()>& f) {
  try {
    const Tensor unused = f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("pointwise: errors name the operator, the operands and the line", "[wall][prologue]") {
  const Tensor a = ones({2, 3}), b = ones({4}), small = ones({2}, {.dtype = DType::i16});
  const u32 line = __LINE__ + 1;
  const std::string text = message([&] { return a + b; });
  CAPTURE(text);
  CHECK(has(text, "ShapeError: [add] shapes [2, 3] and [4] do not broadcast"));
  CHECK(has(text, "[2, 3] f32 cpu"));
  CHECK(has(text, "pointwise_test.cpp:" + std::to_string(line)));
  CHECK(has(message([&] { return small * small; }), "[mul] i16 is for storage only"));
  CHECK(has(message([&] { return exp(Tensor()); }), "undefined"));
  CHECK(has(message([&] { return add(1, 2); }), "[add] at least one operand must be a tensor"));
  CHECK(has(message([&] {
              return a + ones({2, 3}, {.device = Device::meta()});
            }),
            "PlacementError"));
}

// --- gradients -----------------------------------------------------------------------------------

TEST_CASE("pointwise: both derivatives of one-operand entries agree with differences") {
  for (const UnaryCase& c : kUnary) {
    CAPTURE(c.name);
    std::vector<double> v = numbers(9, c.low, c.high, 3);
    for (double& x : v)
      if (std::fabs(x) < 0.05) x = 0.3;  // away from kinks
    const Tensor x = reshape(tensor(v), {3, 3}).set_requires_grad();
    const std::string name = c.name;
    if (name == "sign") {
      CHECK(grad(c.op(x).sum(), x).to_vector<double>() == std::vector<double>(9, 0.0));
      continue;
    }
    const auto f = [&](std::span<const Tensor> in) { return c.op(in[0]); };
    const GradCheck first = grad_check(f, {x});
    CHECK(first.message == "");
    const bool flat = name == "abs" || name == "relu" || name == "neg";
    const GradCheck second = grad_grad_check(f, {x}, {.second_is_zero = flat});
    CHECK(second.message == "");
  }
}

TEST_CASE("pointwise: both derivatives of two-operand entries, with broadcasting and numbers") {
  for (const BinaryCase& c : kBinary) {
    CAPTURE(c.name);
    const std::string name = c.name;
    const bool flat = name == "add" || name == "sub" || name == "maximum" || name == "minimum";
    const Tensor a = reshape(tensor(numbers(6, c.low, c.high, 4)), {2, 3}).set_requires_grad();
    const Tensor b = reshape(tensor(numbers(6, c.low, c.high, 5)), {2, 3}).set_requires_grad();
    const Tensor row = tensor(numbers(3, c.low, c.high, 6)).set_requires_grad();
    const auto both = [&](std::span<const Tensor> in) { return c.op(in[0], in[1]); };
    const auto first = [&](std::span<const Tensor> in) { return c.op(in[0], 1.7); };
    const auto second = [&](std::span<const Tensor> in) { return c.op(1.7, in[0]); };
    const GradCheckOptions zero{.second_is_zero = flat};
    CHECK(grad_check(both, {a, b}).message == "");
    CHECK(grad_check(both, {a, row}).message == "");
    CHECK(grad_check(both, {row, b}).message == "");
    CHECK(grad_check(first, {a}).message == "");
    CHECK(grad_check(second, {a}).message == "");
    CHECK(grad_grad_check(both, {a, b}, zero).message == "");
    CHECK(grad_grad_check(both, {row, b}, zero).message == "");
    const bool linear = flat || name == "mul";
    CHECK(grad_grad_check(first, {a}, {.second_is_zero = linear || name == "div"}).message == "");
    CHECK(grad_grad_check(second, {a}, {.second_is_zero = linear}).message == "");
  }
}

TEST_CASE("pointwise: derivatives of where and clamp") {
  const Tensor c = gt(tensor({1.0, -1.0, 2.0}), 0);
  const Tensor a = tensor(std::vector<double>{0.1, 0.2, 0.3}).set_requires_grad();
  const Tensor b = tensor(std::vector<double>{1.5}).set_requires_grad();
  const auto choose = [&](std::span<const Tensor> in) { return where(c, in[0], in[1]); };
  CHECK(grad_check(choose, {a, b}).message == "");
  CHECK(grad_grad_check(choose, {a, b}, {.second_is_zero = true}).message == "");
  const auto square_or_one = [&](std::span<const Tensor> in) {
    return where(c, square(in[0]), 1) + where(c, 2.0, in[0] * in[0]);
  };
  CHECK(grad_check(square_or_one, {a}).message == "");
  CHECK(grad_grad_check(square_or_one, {a}).message == "");
  const auto inside = [](std::span<const Tensor> in) { return clamp(in[0], 0.15, 0.25); };
  CHECK(grad_check(inside, {a}).message == "");
  CHECK(grad_grad_check(inside, {a}, {.second_is_zero = true}).message == "");
}

TEST_CASE("pointwise: the fused backward and the recorded one agree", "[wall][node]") {
  for (const Device d : devices())
    for (const UnaryCase& c : kUnary) {
      CAPTURE(c.name, to_string(d));
      const Tensor x = make(numbers(40, c.low, c.high, 7), {40}, f32, d).set_requires_grad();
      const Tensor gy = make(numbers(40, -1, 1, 8), {40}, f32, d);
      const Tensor fused = grad(c.op(x), x, {.grad_outputs = {gy}});
      const Tensor chain = grad(c.op(x), x, {.grad_outputs = {gy}, .create_graph = true});
      check_values(fused, chain.to_vector<double>(), 1e-5);
    }
}

TEST_CASE("pointwise: every variant of the fused backwards agrees with cpu f64") {
  for (const Device d : devices())
    for (const DType t : {f64, f32, f16, bf16}) {
      const auto compare = [&](const char* contract, const auto& gradient) {
        const std::vector<double> expected = gradient(f64, Device::cpu());
        for (const char* variant : variants(contract, d)) {
          CAPTURE(contract, to_string(d), variant, dtype_name(t));
          const VariantScope scope(contract, variant);
          const std::vector<double> got = gradient(t, d);
          REQUIRE(got.size() == expected.size());
          for (size_t i = 0; i < got.size(); ++i) {
            CAPTURE(i, got[i], expected[i]);
            if (!(std::fabs(got[i] - expected[i]) <=
                  8 * tolerance(t) * std::max(1.0, std::fabs(expected[i]))))
              CHECK(got[i] == expected[i]);
          }
        }
      };
      // Inputs are rounded to the dtype first, so that only the operators differ.
      const auto rounded = [&](std::vector<double> v) {
        return make(v, {i64(v.size())}, t, Device::cpu()).to(f64);
      };
      for (const UnaryCase& c : kUnary)
        compare((std::string(c.name) + "_backward").c_str(), [&](DType as, Device on) {
          const Tensor x = rounded(numbers(50, c.low, c.high, 9)).to(as).to(on).set_requires_grad();
          const Tensor gy = rounded(numbers(50, -1, 1, 10)).to(as).to(on);
          return grad(c.op(x), x, {.grad_outputs = {gy}}).to_vector<double>();
        });
      for (const BinaryCase& c : kBinary)
        for (const int side : {0, 1})
          compare(
              (std::string(c.name) + (side ? "_backward_b" : "_backward_a")).c_str(),
              [&](DType as, Device on) {
                const Tensor a =
                    rounded(numbers(50, c.low, c.high, 11)).to(as).to(on).set_requires_grad();
                const Tensor b =
                    rounded(numbers(50, c.low, c.high, 12)).to(as).to(on).set_requires_grad();
                const Tensor gy = rounded(numbers(50, -1, 1, 13)).to(as).to(on);
                return grad(c.op(a, b), side ? b : a, {.grad_outputs = {gy}}).to_vector<double>();
              });
    }
}

TEST_CASE("pointwise: gradients at the edges are PyTorch's") {
  const auto at = [](double v) { return tensor(std::vector<double>{v}).set_requires_grad(); };
  const auto slope = [](const Tensor& y, const Tensor& x) { return grad(y, x).item(); };
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    const auto d = [&](const Tensor& y, const Tensor& x) {
      return recorded ? grad(y, x, {.create_graph = true}).item() : slope(y, x);
    };
    Tensor x = at(0), z = at(0);
    CHECK(d(relu(x), x) == 0);
    CHECK(d(abs(x), x) == 0);
    CHECK(d(clamp(x, 0, 1), x) == 1);
    CHECK(d(clamp(x, -1, 0), x) == 1);
    CHECK(d(clamp(x, 0.5, 1), x) == 0);
    CHECK(d(maximum(x, z), x) == 0.5);
    CHECK(d(minimum(x, z), z) == 0.5);
    CHECK(d(maximum(x, 0), x) == 0.5);
    CHECK(d(pow(x, 2), x) == 0);
    CHECK(d(pow(x, 1), x) == 1);
    CHECK(d(pow(x, 0), x) == 0);
    CHECK(d(pow(x, at(0)), x) == 0);
    CHECK(d(pow(0.0, x), x) == 0);
    CHECK(d(pow(z, x), x) == 0);
    CHECK(std::isinf(d(pow(x, 0.5), x)));
    const Tensor nan = at(kNan);
    CHECK(d(relu(nan), nan) == 1);
  }
}

// --- in place and rvalues ------------------------------------------------------------------------

TEST_CASE("pointwise: in-place members", "[wall][in_place]") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    Tensor x = make({-1, 2, -3, 4}, {2, 2}, f32, d);
    const u32 before = x.version();
    Tensor& same = x.add_(make({1, 1}, {2}, DType::i32, d));
    CHECK(&same == &x);
    CHECK(x.version() == before + 1);
    check_values(x, {0, 3, -2, 5}, 0);
    check_values(x.mul_(2), {0, 6, -4, 10}, 0);
    check_values(x.relu_(), {0, 6, 0, 10}, 0);
    CHECK(x.transpose(0, 1).mul_(3).shape() == Shape{2, 2});
    check_values(x, {0, 18, 0, 30}, 0);
    x.add_(x.transpose(0, 1));  // reads what it writes: as if read first
    check_values(x, {0, 18, 18, 60}, 0);
    CHECK(make({1, 2}, {2}, f32, d).add_(make({1}, {}, f32, d)).mul_(2).to_vector<float>() ==
          std::vector<float>{4, 6});
    Tensor i = make({1, 2}, {2}, DType::i64, d);
    CHECK_THROWS_AS(i.mul_(0.5), DtypeError);
    CHECK_THROWS_AS(i.add_(make({1}, {1}, f32, d)), DtypeError);
    CHECK_THROWS_AS(i.add_(make({1, 2, 3, 4}, {2, 2}, DType::i64, d)), ShapeError);
    CHECK_THROWS_AS(make({1}, {1}, f32, d).expand({3}).mul_(2), InplaceError);
    check_values(i, {1, 2}, 0);
  }
}

TEST_CASE("pointwise: in-place members record", "[wall][in_place]") {
  const Tensor x = tensor(std::vector<double>{-1, 2}).set_requires_grad();
  const Tensor w = tensor(std::vector<double>{3, 3}).set_requires_grad();
  Tensor y = x * w;
  y.add_(x).mul_(2).relu_();
  y.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 8});
  CHECK(w.grad().to_vector<double>() == std::vector<double>{0, 4});
  Tensor leaf = tensor({1.0}).set_requires_grad();
  CHECK_THROWS_AS(leaf.mul_(2), InplaceError);
  Tensor e = exp(leaf);  // saved its output
  e.mul_(2);
  CHECK_THROWS_AS(e.backward(), InplaceError);
}

TEST_CASE("pointwise: an rvalue's storage is worked in, never a saved one's", "[wall][in_place]") {
  const NoGrad no_grad;
  Tensor x = ones({64});
  const void* home = x.impl()->data;
  Tensor y = exp(std::move(x));
  CHECK(y.impl()->data == home);
  y = tanh(std::move(y)) + 1;
  CHECK(y.impl()->data == home);
  const EnableGrad grad_on;
  Tensor p = ones({64}).set_requires_grad();
  Tensor h = p * 2;
  const void* kept = h.impl()->data;
  const Tensor s = sin(std::move(h));  // saves its input
  CHECK(s.impl()->data != kept);
  s.sum().backward();
  CHECK(std::fabs(p.grad().to_vector<double>()[0] - 2 * std::cos(2.0)) < 1e-6);
}

TEST_CASE("pointwise: f(x, x) and a shared operand") {
  const Tensor x = tensor(std::vector<double>{3.0}).set_requires_grad();
  CHECK(grad(x * x, x).item() == 6);
  CHECK(std::fabs(grad(pow(x, x), x).item() - 27 * (1 + std::log(3.0))) < 1e-12);
  Tensor t = tensor(std::vector<double>{2.0, 5.0});
  const Tensor keep = t;
  const Tensor y = std::move(t) * keep;
  CHECK(keep.to_vector<double>() == std::vector<double>{2, 5});
  CHECK(y.to_vector<double>() == std::vector<double>{4, 25});
}
