// Inverse activations: the budget of kernels/pointwise/activation_inverse_math.h, against slopes in
// double.
#include "warptape/kernels/activation_inverse.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Row {
  const char* name;
  InvertedActivation f;
  double turn;
  Tensor (*value)(const In&);
  double (*slope)(double);
};
const Row kRows[] = {
    {"silu", InvertedActivation::silu, -1.27846454276107379511, silu,
     [](double x) { return logistic(x) * (1 + x * logistic(-x)); }},
    {"gelu", InvertedActivation::gelu, -0.751791524693564457458, gelu,
     [](double x) { return normal_cdf(x) + x * 0.39894228040143267794 * std::exp(-0.5 * x * x); }},
    {"gelu_tanh", InvertedActivation::gelu_tanh, -0.752461422071016258488, gelu_tanh,
     [](double x) {
       const double c = 2 * 0.79788456080286535588, s = logistic(c * (x + 0.044715 * x * x * x));
       return s + x * s * (1 - s) * c * (1 + 3 * 0.044715 * x * x);
     }},
    {"mish", InvertedActivation::mish, -1.19243121451549521214, mish, [](double x) {
       const double t = std::tanh(std::log1p(std::exp(x)));
       return t + x * logistic(x) * (1 - t * t);
     }}};

// Where functions are told apart: a grid, the tails, and both sides of the turn.
std::vector<double> places(double turn) {
  std::vector<double> x;
  for (double v = -25; v <= 25; v += 0.0371) x.push_back(v);
  for (double v = 1; v < 1e4; v *= 1.7) x.insert(x.end(), {v, -v});
  for (int k = 0; k < 40; ++k)
    x.insert(x.end(), {turn + std::ldexp(1, -k), turn - std::ldexp(1, -k), std::ldexp(1, -k),
                       -std::ldexp(1, -k)});
  x.insert(x.end(), {turn, 0.0, -0.0});
  return x;
}

}  // namespace

TEST_CASE("activation_inverse: slopes of what comes back are within the stated budget") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16})
      for (const Row& row : kRows) {
        CAPTURE(to_string(d), dtype_name(t), row.name);
        const Tensor x = tensor(places(row.turn)).to(t).to(d), y = row.value(x);
        const i64 n = x.numel();
        Tensor bits = empty({(n + 7) / 8}, {.dtype = DType::u8, .device = d});
        run(BitPackArgs{wt_test::view(bits), wt_test::view(x), row.turn, false},
            Launch{.device = d});
        Tensor back = zeros_like(x);
        const std::vector<double> was = x.to_vector<double>(), value = y.to_vector<double>();
        const double u = wt_test::roundoff(t);
        const ActivationInverseArgs args{wt_test::view(back), wt_test::view(y), wt_test::view(bits),
                                         row.f};
        wt_test::for_each_variant(d, args, [&] {
          const std::vector<double> got = back.to_vector<double>();
          for (size_t i = 0; i < got.size(); ++i) {
            const double want = row.slope(was[i]), slope = row.slope(got[i]);
            const double bound = std::min(2 * std::sqrt(u), 8 * u / std::fabs(want));
            if (std::fabs(slope - want) <= bound) continue;
            CAPTURE(was[i], value[i], got[i], want, slope, bound);
            CHECK(std::fabs(slope - want) <= bound);
          }
          back.fill_(0);
        });
      }
}

TEST_CASE("activation_inverse: NaN, infinity, what has underflowed, and ragged sizes") {
  const double inf = INFINITY;
  for (const Device d : kernel_devices())
    for (const Row& row : kRows)
      for (const i64 n : {0, 1, 7, 8, 9, 131}) {
        CAPTURE(to_string(d), row.name, n);
        std::vector<double> v(static_cast<size_t>(n));
        const double some[] = {std::nan(""), inf, -200.0, 1e30, 3.0, -0.5, -2.0};
        for (size_t i = 0; i < v.size(); ++i) v[i] = some[i % 7];
        const Tensor x = tensor(v).reshape({n}).to(f32).to(d), y = row.value(x);
        Tensor bits = empty({(n + 7) / 8}, {.dtype = DType::u8, .device = d});
        run(BitPackArgs{wt_test::view(bits), wt_test::view(x), row.turn, false},
            Launch{.device = d});
        Tensor back = zeros_like(x);
        wt_test::for_each_variant(
            d,
            ActivationInverseArgs{wt_test::view(back), wt_test::view(y), wt_test::view(bits),
                                  row.f},
            [&] {
              const std::vector<double> got = back.to_vector<double>();
              for (size_t i = 0; i < got.size(); ++i) {
                CAPTURE(i, got[i], v[i]);
                switch (i % 7) {
                  case 0:
                    CHECK(std::isnan(got[i]));
                    break;
                  case 2:
                    CHECK((got[i] < -10 && std::fabs(row.slope(got[i])) < 1e-30));
                    break;
                  case 1:
                  case 3:
                    CHECK(float(got[i]) == float(v[i]));
                    break;
                  default:
                    CHECK(std::fabs(got[i] - v[i]) < 1e-5);
                }
              }
            });
      }
}
