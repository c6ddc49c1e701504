// What the tests of elementwise operators share: formulas in double, values, layouts, comparison.
#pragma once
#include <cmath>
#include <functional>
#include <limits>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

namespace pointwise_test {

using namespace wt;

inline constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;

inline double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
inline double sigma(double x) { return 1 / (1 + std::exp(-x)); }

struct UnaryCase {
  const char* name;
  Tensor (*op)(const In&);
  double (*value)(double);
  double low, high;  // where the inputs lie
};
inline const UnaryCase kUnary[] = {
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
inline const BinaryCase kBinary[] = {
    {"add", wt::add, [](double a, double b) { return a + b; }, -2, 2},
    {"sub", wt::sub, [](double a, double b) { return a - b; }, -2, 2},
    {"mul", wt::mul, [](double a, double b) { return a * b; }, -2, 2},
    {"div", wt::div, [](double a, double b) { return a / b; }, 0.4, 2},
    {"pow", wt::pow, [](double a, double b) { return std::pow(a, b); }, 0.3, 3},
    {"maximum", wt::maximum, [](double a, double b) { return a > b ? a : b; }, -2, 2},
    {"minimum", wt::minimum, [](double a, double b) { return a < b ? a : b; }, -2, 2},
};
inline const BinaryCase kComparisons[] = {
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
inline std::vector<double> numbers(i64 n, double low, double high, u64 salt = 0) {
  std::vector<double> v;
  for (i64 i = 0; i < n; ++i)
    v.push_back(low + (high - low) * double(mix64(u64(i) * 7919 + salt + 1) >> 40) * 0x1p-24);
  return v;
}
inline Tensor make(std::vector<double> v, const Shape& shape, DType t, Device d) {
  return reshape(tensor(v), shape).to(t).to(d);
}

inline std::vector<Device> devices() {
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
inline std::vector<const char*> variants(const std::string& contract, Device d) {
  std::vector<const char*> names;
  for (const ContractInfo& c : all_contracts())
    if (contract == c.name)
      for (int i = 0; i < c.count(d.kind); ++i) names.push_back(c.variant(d.kind, i).name);
  return names;
}

// Relative to max(1, |expected|): results of single operations, so a few units in the last place.
inline double tolerance(DType t) {
  return t == DType::f64 ? 1e-13 : t == DType::f32 ? 1e-6 : t == DType::f16 ? 2e-3 : 1.6e-2;
}
inline void check_values(const Tensor& y, const std::vector<double>& expected, double tol) {
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
inline const Layout kLayouts[] = {
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

}  // namespace pointwise_test
