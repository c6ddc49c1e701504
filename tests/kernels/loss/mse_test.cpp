// Every variant of the squared-error kernels against f64 loops.
#include "warptape/kernels/mse.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

void check_all(const Tensor& a, const Tensor& b, std::set<std::string>* ran) {
  const DType t = a.dtype(), wide = t == f64 ? f64 : f32;
  const TensorOptions wide_on{.dtype = wide, .device = a.device()};
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  double want = 0;
  for (size_t i = 0; i < x.size(); ++i) want += (x[i] - y[i]) * (x[i] - y[i]);
  CAPTURE(a.shape(), dtype_name(t));
  Tensor sum = full({}, 7, wide_on), weight = full({}, 7, wide_on);
  for_each_variant(
      a.device(), MseForwardArgs{view(sum), view(weight), view(a), view(b)},
      [&] {
        CHECK(close(sum.item(), want, error_bound(wide, double(x.size()), want, want)));
        CHECK(weight.item() == double(x.size()));
        sum.fill_(7), weight.fill_(7);
      },
      ran);
  const Tensor grad = full({}, 0.5, wide_on);
  Tensor ga = empty_like(a);
  for (double factor : {2.0, -2.0})
    for_each_variant(
        a.device(), MseBackwardArgs{view(ga), view(grad), view(a), view(b), factor},
        [&] {
          const std::vector<double> got = to_doubles(ga);
          for (size_t i = 0; i < got.size(); ++i) {
            const double g = 0.5 * factor * (x[i] - y[i]);
            if (close(got[i], g, error_bound(t, 2, g, std::fabs(x[i]) + std::fabs(y[i])))) continue;
            CAPTURE(i, got[i], g);
            FAIL("gradient out of bounds");
          }
          ga.fill_(7);
        },
        ran);
}

}  // namespace

TEST_CASE("mse kernels: every variant, dtype, size and layout") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16}) {
      for (i64 n : {0, 1, 7, 8, 33, 300, 20000}) {
        if (n == 20000 && t != f32) continue;
        check_all(to_tensor(random_values(n, 1, 3), {n}, t, d),
                  to_tensor(random_values(n, 2, 3), {n}, t, d), &ran);
      }
      const Tensor a = to_tensor(random_values(60, 1, 3), {5, 12}, t, d);
      const Tensor b = to_tensor(random_values(60, 2, 3), {12, 5}, t, d);
      check_all(a, b.transpose(0, 1), &ran);
      check_all(a.slice(1, {1, 12, 2}), b.transpose(0, 1).slice(1, {0, 6}), &ran);
      check_all(a.slice(0, {0, 1}).expand({5, 12}), a, &ran);
      check_all(to_tensor({2.5}, {}, t, d), to_tensor({1.0}, {}, t, d), &ran);
    }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:parts", "simt:vectorized"});
}
