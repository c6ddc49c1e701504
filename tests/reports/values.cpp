// Reports of functions of one and two numbers at the ends of their range.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

constexpr double kPi = 3.14159265358979323846;

// A NaN with the sign bit set, as 0 / 0 is on many a machine.
Tensor negative_nan(Device d) {
  return tensor(std::vector<float>{std::copysign(std::nanf(""), -1.0f)}, {.device = d});
}

Tensor exact_gelu(Device d) { return gelu(given(d, {kInf, -kInf, NAN})); }
Tensor gelu_gradients(Device d) {
  const Tensor x = given_leaf(d, {kInf, -kInf});
  return grad(sum(gelu(x)), x);
}
// Activations that are x times a number between 0 and 1.
Tensor gates_at_ends(Device d) {
  const Tensor x = given(d, {kInf, -kInf});
  return cat({gelu_tanh(x), silu(x), mish(x), hardswish(x)});
}
Tensor gate_gradients_at_ends(Device d) {
  const Tensor x = given_leaf(d, {kInf, -kInf});
  return cat({grad(sum(gelu_tanh(x)), x), grad(sum(silu(x)), x), grad(sum(mish(x)), x),
              grad(sum(hardswish(x)), x)});
}

Tensor half_gelus(Device d) {
  return cat({gelu_tanh(given(d, {-100, -1500, 100}, f16)), tanh(given(d, {9, -9, 300}, f16))});
}

Tensor quotients(Device d) {
  const Tensor a = given(d, {1, -3, 0}), far = given(d, {kInf, -kInf, kInf});
  return cat({abs(a / far), abs(reciprocal(far))});
}

Tensor roundings(Device d) {
  const Tensor x = given(d, {NAN, -NAN, kInf, -kInf}, bf16);
  return cat({trunc(x), floor(x), ceil(x), round(x), x - trunc(x)});
}

Tensor angles(Device d) {
  const Tensor y = given(d, {3e38, 1e38, -3e38, -0.0, 1e-40, 1}),
               x = given(d, {3e38, 3e38, 3e38, -3e38, 3e38, 3e38});
  return atan2(y, x);
}
Tensor wide_angles(Device d) {
  return atan2(given(d, {1.5e308, -1e-310}, f64), given(d, {-1.5e308, 1e-310}, f64));
}

Tensor slopes_of_inverse_sines(Device d) {
  const Tensor x = given_leaf(d, {1e22, -1e22}), y = given_leaf(d, {1e22});
  return cat({grad(sum(asinh(x)), x), grad(sum(acosh(y)), y)});
}
Tensor wide_slopes_of_inverse_sines(Device d) {
  const Tensor x = given_leaf(d, {-1e200}, f64), y = given_leaf(d, {1e200}, f64);
  return cat({grad(sum(asinh(x)), x), grad(sum(acosh(y)), y)});
}

Tensor logs_of_sums(Device d) {
  return logaddexp(given(d, {-kInf, kInf, -kInf, kInf}), given(d, {-kInf, kInf, 2, -kInf}));
}
Tensor gradients_of_logs_of_sums(Device d) {
  const Tensor a = given_leaf(d, {-kInf, -kInf, 1, kInf}), b = given(d, {-kInf, 2, -kInf, 1});
  return grad(sum(logaddexp(a, b)), a);
}

}  // namespace

const Reports& value_reports() {
  static const Reports all = {
      {"pytorch#185770",
       "gelu of infinity is NaN",
       "its limits: inf, and 0 at -inf; NaN of NaN",
       exact_gelu,
       {kInf, 0, kNan}},
      {"pytorch#187293",
       "the same of a newer version",
       "its gradients there: 1 and 0",
       gelu_gradients,
       {1, 0}},
      {"pytorch#187293",
       "the same of others that are x times a gate: tanh's gelu, silu, mish, hardswish",
       "inf, and 0 at -inf",
       gates_at_ends,
       {kInf, 0, kInf, 0, kInf, 0, kInf, 0}},
      {"pytorch#187293",
       "and their gradients",
       "1 and 0",
       gate_gradients_at_ends,
       {1, 0, 1, 0, 1, 0, 1, 0}},
      {"ncnn#6978",
       "tanh in f16 ends at 1.044, so that gelu(-1500) is 33 and a ViT sees nothing",
       "-0, -0, 100 and 1, -1, 1: they round to that",
       half_gelus,
       {0, 0, 100, 1, -1, 1}},
      {"tt-metal#52114",
       "a number divided by infinity is NaN, after a correction of the quotient",
       "0",
       quotients,
       {0, 0, 0, 0, 0, 0}},
      {"tt-metal#56414",
       "trunc, floor and ceil of a NaN in bf16 are infinite, so is the fraction of inf",
       "NaN; inf stays, its fraction x - trunc(x) is NaN",
       roundings,
       {kNan, kNan,  kInf, -kInf, kNan, kNan,  kInf, -kInf, kNan, kNan,
        kInf, -kInf, kNan, kNan,  kInf, -kInf, kNan, kNan,  kNan, kNan}},
      {"tt-metal#48285",
       "exp of a NaN with a sign is 0",
       "NaN, of every function",
       [](Device d) {
         const Tensor x = negative_nan(d);
         return cat({exp(x), expm1(x), sigmoid(x), tanh(x), log1p(x), relu(x), maximum(x, 1)});
       },
       {kNan, kNan, kNan, kNan, kNan, kNan, kNan}},
      {"tt-metal#55124",
       "atan2 of numbers beyond 2^126 is 0 or pi / 2: their reciprocal underflows",
       "pi/4, atan(1/3), -pi/4, -pi, y/x",
       angles,
       {kPi / 4, 0.32175055439664219340, -kPi / 4, -kPi, 0, 3.3333333333333333e-39},
       kTermsOfFunction},
      {"tt-metal#55124",
       "the same in f64",
       "3 pi/4, -pi/4",
       wide_angles,
       {3 * kPi / 4, -kPi / 4},
       kTermsOfFunction},
      {"jax#40634",
       "gradients of asinh and acosh are 0 in f32 from 1.84e19 on: x^2 overflows",
       "1 / |x|, in f64 too",
       slopes_of_inverse_sines,
       {1.0000000221803696558e-22, 1.0000000221803696558e-22, 1.0000000221803696558e-22}},
      {"jax#40634", "the same in f64", "1 / |x|", wide_slopes_of_inverse_sines, {1e-200, 1e-200}},
      {"jax#39799",
       "the gradient of sqrt at the least f64 is inf",
       "1 / (2 sqrt(2^-1074))",
       [](Device d) {
         const Tensor x = given_leaf(d, {0x1p-1074}, f64);
         return grad(sum(sqrt(x)), x);
       },
       {2.2494568972715981914e161}},
      {"jax#39707",
       "log1p in f64 is off by up to 129 units in the last place about -0.414",
       "of the f64 nearest to -0.4141892, in 60 digits",
       [](Device d) { return log1p(given(d, {-0.4141892}, f64)); },
       {-0.53475840843205963057},
       kTermsOfFunction},
      {"tinygrad#13798",
       "logaddexp of two -inf is NaN",
       "-inf; inf, 2, inf",
       logs_of_sums,
       {-kInf, kInf, 2, kInf}},
      {"pytorch#196787",
       "gradients of logaddexp are quotients of overflowing numbers",
       "0 where it is -inf, else 0 or 1",
       gradients_of_logs_of_sums,
       {0, 0, 1, 1}},
  };
  return all;
}

const Reports& remainder_reports() {
  static const Reports all = {
      {"tt-metal#51661",
       "fmod of numbers beyond 1e7 is larger than the divisor and of the wrong sign",
       "of the f32 operands, in whole numbers: 1, 1, 2, -1, 2",
       [](Device d) {
         return fmod(given(d, {1e8, 1e10, 1e15, -1e10, 1e8}), given(d, {3, 3, 3, 3, 7}));
       },
       {1, 1, 2, -1, 2},
       0},
      {"tt-metal#54048",
       "remainder is off by whole divisors where the quotient is beyond 2^23",
       "of the f32 operands, in whole numbers",
       [](Device d) {
         return remainder(given(d, {14.999999, -39999988.0, 39999988.0}), 3);
       },
       {2.9999990463256836, 2, 1},
       0},
      {"tt-metal#56384",
       "fmod(x, 0.1) is 0 for every x: the reciprocal of 0.1 is rounded up",
       "of the f32 operands, exactly, as C's fmod",
       [](Device d) {
         return fmod(given(d, {10, 100, 1e4, 1e6, 360}), given(d, {0.1}));
       },
       {0.09999985247850418, 0.09999851137399673, 0.09985098987817764, 0.08509884029626846,
        0.09999463707208633},
       0},
      {"tt-metal#56384",
       "and infinite for divisors below 2.9e-39",
       "0: 1 is 2^149 times the least number, 2^20 is a multiple of 2^-140",
       [](Device d) {
         return fmod(given(d, {1, 1048576, -3}), given(d, {0x1p-149, 0x1p-140, 0x1p-130}));
       },
       {0, 0, 0},
       0},
  };
  return all;
}

}  // namespace wt_test
