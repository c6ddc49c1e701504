// Derivatives at the origin, at bounds and where a formula's parts overflow, beside the right
// numbers or the convention that a header states. Fused, and as the operators that record.
#include <cmath>
#include <string>
#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/operators.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr double kEnd = INFINITY;

struct Slope {
  const char* name;
  Tensor (*f)(const Tensor&);
  std::vector<std::pair<double, double>> at;  // x, and the derivative there
};
const Slope kSlopes[] = {
    {"sinh",
     [](const Tensor& x) { return sinh(x); },
     {{0, 1}, {89, std::cosh(89.0)}, {-89, std::cosh(89.0)}, {1, std::cosh(1.0)}}},
    {"cosh", [](const Tensor& x) { return cosh(x); }, {{0, 0}, {89, std::sinh(89.0)}}},
    {"asinh",
     [](const Tensor& x) { return asinh(x); },
     {{0, 1}, {1e20, 1e-20}, {-1e30, 1e-30}, {3e9, 1 / 3e9}, {1, std::sqrt(0.5)}}},
    {"acosh",
     [](const Tensor& x) { return acosh(x); },
     {{1, kEnd}, {2, 1 / std::sqrt(3.0)}, {1e20, 1e-20}, {1e30, 1e-30}}},
    {"clamp",
     [](const Tensor& x) { return clamp(x, -1, 2); },
     {{-1, 1}, {2, 1}, {0, 1}, {3, 0}, {-2, 0}, {NAN, 0}}},
    {"clamp to a least",
     [](const Tensor& x) { return clamp(x, {.min = -1}); },
     {{-1, 1}, {0, 1}, {-2, 0}, {NAN, 0}}},
    {"clamp_min",
     [](const Tensor& x) { return clamp_min(x, -1); },
     {{-1, 1}, {0, 1}, {-2, 0}, {NAN, 0}}},
    {"clamp_max",
     [](const Tensor& x) { return clamp_max(x, 2); },
     {{2, 1}, {0, 1}, {3, 0}, {NAN, 0}}},
    {"clamp_min of a tensor",
     [](const Tensor& x) { return clamp_min(x, full_like(x, -1)); },
     {{-1, 0.5}, {0, 1}, {-2, 0}}},
    {"smooth_l1_loss",
     [](const Tensor& x) { return smooth_l1_loss(x, zeros_like(x), {.beta = 1e-40}).sum; },
     {{1, 1}, {-3, -1}, {0, 0}}},
    {"smooth_l1_loss of nearly nothing",
     [](const Tensor& x) { return smooth_l1_loss(x, zeros_like(x), {.beta = 1e-310}).sum; },
     {{1, 1}, {-3, -1}, {0, 0}}},
    {"smooth_l1_loss of small distances",
     [](const Tensor& x) { return smooth_l1_loss(x, zeros_like(x), {.beta = 0.5}).sum; },
     {{1e-10, 2e-10}, {-1e-4, -2e-4}, {0.5, 1}, {-kEnd, -1}}},
    {"huber_loss of small distances",
     [](const Tensor& x) { return huber_loss(x, zeros_like(x), {.delta = 2}).sum; },
     {{1e-10, 1e-10}, {-1e-4, -1e-4}, {2, 2}, {kEnd, 2}}},
    {"xlogy by b",
     [](const Tensor& b) { return xlogy(full_like(b, 0), b); },
     {{0, 0}, {2, 0}, {kEnd, 0}}},
    {"xlogy by a",
     [](const Tensor& a) { return xlogy(a, full_like(a, 2)); },
     {{0, std::log(2.0)}, {3, std::log(2.0)}}},
    {"xlogy by a, of 0", [](const Tensor& a) { return xlogy(a, full_like(a, 0)); }, {{0, 0}}},
};

void check_slopes(const Tensor& y, const Tensor& x, const Values& want, bool again) {
  const Values got = values(grad(y.sum(), x, {.create_graph = again}));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(close(got[i], want[i], 16 * roundoff(x.dtype()) * std::fabs(want[i])));
  }
}

}  // namespace

TEST_CASE("gradients at ends: functions of one tensor", "[ends]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      for (const bool again : {false, true})
        for (const Slope& s : kSlopes) {
          CAPTURE(to_string(d), dtype_name(t), again, s.name);
          Values at, want;
          for (const auto& [x, slope] : s.at) at.push_back(x), want.push_back(slope);
          const Tensor x = to_tensor(at, {i64(at.size())}, t, d).set_requires_grad();
          check_slopes(s.f(x), x, want, again);
        }
}

TEST_CASE("gradients at ends: the angle of a point near the origin and far from it", "[ends]") {
  const double far = 1e30, near = 1e-30;
  const Values a = {0, -0.0, near, 3 * near, far, -3 * far, 0, 2};
  const Values b = {0, 0, near, -4 * near, far, 4 * far, 5, 0};
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      for (const bool again : {false, true}) {
        CAPTURE(to_string(d), dtype_name(t), again);
        Values by_a, by_b;
        for (size_t i = 0; i < a.size(); ++i) {
          const double square = a[i] * a[i] + b[i] * b[i];
          by_a.push_back(square == 0 ? 0 : b[i] / square);
          by_b.push_back(square == 0 ? 0 : -a[i] / square);
        }
        const Tensor y = to_tensor(a, {8}, t, d).set_requires_grad();
        const Tensor x = to_tensor(b, {8}, t, d).set_requires_grad();
        check_slopes(atan2(y, x), y, by_a, again);
        check_slopes(atan2(y, x), x, by_b, again);
      }
  // The second derivatives are those of differences, beside an axis, too.
  const Tensor y = tensor({1.0, 0.0, -2.0, 3.0}).to(f64).set_requires_grad();
  const Tensor x = tensor({0.0, 2.0, -2.0, 0.5}).to(f64).set_requires_grad();
  const Tensor by_y = grad(atan2(y, x).sum(), y, {.create_graph = true});
  const Values second = values(grad(by_y.sum(), y));
  const Values ys = values(y), xs = values(x);
  for (size_t i = 0; i < 4; ++i) {
    const double square = ys[i] * ys[i] + xs[i] * xs[i];
    CHECK(std::abs(second[i] + 2 * xs[i] * ys[i] / square / square) < 1e-14);
  }
}
