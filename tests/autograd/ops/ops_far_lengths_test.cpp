// Lengths of vectors whose squares no dtype has: norms, what divides by them, clipping.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/optim/clip.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/tolerance.h"

using namespace wt;
using namespace wt_test;

namespace {

struct Far {
  DType dtype;
  double unit;  // a power of two: multiples of it are exact
};
// Squares beyond the largest number and below the least; 1 for what is in between.
const Far kFar[] = {{f32, 0x1p100}, {f32, 0x1p-100}, {f32, 1},        {bf16, 0x1p100},
                    {f16, 0x1p10},  {f64, 0x1p900},  {f64, 0x1p-900}, {f64, 0x1p-500}};

// 3 and 4 by turns in `count` rows of `columns`: each column has the length 5 sqrt(count / 2).
Tensor threes_and_fours(const Far& far, i64 count, i64 columns, Device d) {
  std::vector<double> v;
  for (i64 i = 0; i < count * columns; ++i) v.push_back((i / columns % 2 ? 4 : 3) * far.unit);
  return tensor(v).to(far.dtype).to(d).reshape({count, columns}).set_requires_grad();
}

void check_near(const Tensor& t, double want, double terms) {
  for (const double v : values(t))
    CHECK(within(v, want, value_bound(t.dtype(), t.dtype(), terms, want, std::fabs(want))));
}

void check_gradient(const Tensor& t, double want, double terms) {
  for (const double v : values(t))
    CHECK(within(v, want, gradient_bound(t.dtype(), terms, want, std::fabs(want))));
}

}  // namespace

TEST_CASE("norm: no square overflows or vanishes, in rows, columns and all", "[far_lengths]") {
  for (const Device d : kernel_devices())
    for (const Far& far : kFar)
      for (const i64 count : {2, 72}) {
        CAPTURE(to_string(d), int(far.dtype), far.unit, count);
        const double want = 5 * std::sqrt(count / 2.0) * far.unit;
        const Tensor x = threes_and_fours(far, count, 40, d);
        check_near(norm(x, 2, 0), want, 80);
        check_near(norm(x.t().contiguous(), 2, 1), want, 80);
        check_near(norm(x[{Slice{}, Slice{0, 40, 3}}], 2, 0), want, 80);
        check_near(norm(x.narrow(1, 0, 1)), want, 80);
        // x / |x|
        const Tensor g = grad(sum(norm(x, 2, 0)), x);
        check_gradient(g[{0}], 3 / (5 * std::sqrt(count / 2.0)), 80);
        check_gradient(g[{1}], 4 / (5 * std::sqrt(count / 2.0)), 80);
      }
}

TEST_CASE("norm: large beside small elements, zeros, infinity and NaN", "[far_lengths]") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64}) {
      CAPTURE(to_string(d), int(t));
      const auto of = [&](std::initializer_list<Scalar> v) {
        return norm(tensor(v, {.dtype = t, .device = d})).item();
      };
      CHECK(of({0x1p100, 1, 0x1p-100}) == 0x1p100);
      CHECK(of({0x1p-100, 0, 1}) == 1);
      CHECK(of({0, -0.0}) == 0);
      CHECK(of({inf, 1}) == inf);
      CHECK(of({-inf, 0x1p-100}) == inf);
      CHECK(std::isnan(of({NAN, 0x1p100})));
      CHECK(std::isnan(of({inf, NAN})));
      CHECK(std::isnan(of({0x1p-100, NAN})));
      // A thousand small ones are as long as one that is not small.
      const Tensor many = full({1024}, 0x1p-51, {.dtype = t, .device = d});
      CHECK(norm(many).item() == 0x1p-46);
      CHECK(norm(full({1024}, 0x1p51, {.dtype = t, .device = d})).item() == 0x1p56);
    }
}

TEST_CASE("distances: vectors whose squares no dtype has", "[far_lengths]") {
  for (const Device d : kernel_devices())
    for (const Far& far : kFar) {
      if (far.dtype == f16) continue;  // computed in f32
      CAPTURE(to_string(d), int(far.dtype), far.unit);
      const Tensor x = threes_and_fours(far, 2, 1, d).reshape({1, 2});
      const Tensor y = flip(x, 1);
      const double least = far.unit < 1e-300 ? 0 : 1e-40 * far.unit;
      check_near(cosine_similarity(x, y, {.eps = least}), 24.0 / 25, 16);
      check_near(normalize(x, {.eps = least})[{0, 0}], 0.6, 16);
      check_near(pairwise_distance(x, 2 * x, {.eps = 0}), 5 * far.unit, 16);
      const Tensor g = grad(sum(pairwise_distance(x, 0 * x, {.eps = 0})), x);
      check_gradient(g[{0, 1}], 0.8, 16);
    }
}

TEST_CASE("clip_grad_norm_: gradients whose squares no dtype has, and 16-bit ones",
          "[far_lengths]") {
  for (const Device d : kernel_devices())
    for (const Far& far : kFar)
      for (const double p : {2.0, 3.0}) {
        CAPTURE(to_string(d), int(far.dtype), far.unit, p);
        const Tensor x = threes_and_fours(far, 2, 1, d).reshape({2}).detach().clone();
        Tensor w = zeros({2}, {.dtype = far.dtype, .device = d}).set_requires_grad();
        w.set_grad(x);
        const double length = p == 2 ? 5 : std::cbrt(91.0);
        const Tensor before =
            optim::clip_grad_norm_(std::span<const Tensor>(&w, 1), 2.0, {.norm_type = p});
        CHECK(before.dtype() == f64);
        check_near(before, length * far.unit, 64);
        const double factor = std::min(1.0, 2 / (length * far.unit + 1e-6));
        CHECK(w.grad().dtype() == far.dtype);
        check_near(w.grad()[{0}], 3 * far.unit * factor, 16);
        check_near(w.grad()[{1}], 4 * far.unit * factor, 16);
      }
}
