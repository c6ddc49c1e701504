// What a row cannot say of elementwise operators that are made of others, and of NumPy's names.
#include <cmath>
#include <limits>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/arrays.h"
#include "warptape/autograd/ops/composite_pointwise.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {
using Doubles = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("exp2 of whole numbers is exact", "[composite]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64}) {
      CAPTURE(to_string(d), dtype_name(t));
      Doubles x, want;
      for (int k = -100; k <= 127; ++k) x.push_back(k), want.push_back(std::ldexp(1.0, k));
      CHECK(exp2(tensor(x).to(t).to(d)).to_vector<double>() == want);
    }
  CHECK(exp2(tensor({3, 4})).dtype() == f32);
}

TEST_CASE("xlogy where a is 0: the value and both gradients are 0", "[composite]") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = tensor({0.0, 0.0, 0.0, 2.0}).to(d).detach().set_requires_grad();
    const Tensor b = tensor({0.0, kInf, -1.0, 4.0}).to(d).detach().set_requires_grad();
    const Tensor y = xlogy(a, b);
    CHECK(y.to_vector<double>()[0] == 0);
    CHECK(y.to_vector<double>()[1] == 0);
    const std::vector<Tensor> g = grads(sum(y), {a, b}, {.create_graph = true});
    CHECK(g[0].to_vector<float>() == std::vector<float>{0, 0, 0, std::log(4.0f)});
    CHECK(g[1].to_vector<float>() == std::vector<float>{0, 0, 0, 0.5f});
    const std::vector<Tensor> second = grads(sum(g[0]) + sum(g[1]), {a, b});
    CHECK(second[0].to_vector<float>() == std::vector<float>{0, 0, 0, 0.25f});
    CHECK(second[1].to_vector<float>() == std::vector<float>{0, 0, 0, 0.25f - 2.0f / 16});
  }
}

TEST_CASE("addcmul and addcdiv of 16-bit floats round once", "[composite]") {
  // 33 * 33 = 1089 has no f16 of its own (1088, 1090), less 1088 it has.
  const Tensor x = tensor({-1088.0}).to(f16), a = tensor({33.0}).to(f16);
  CHECK(addcmul(x, a, a).to_vector<double>() == Doubles{1});
  CHECK(addcmul(x, a, a).dtype() == f16);
  const Tensor third = addcdiv(tensor({-1.0}).to(f16), tensor({1.0}).to(f16), a, {.value = 34});
  CHECK(third.to_vector<double>() == tensor({34.0 / 33 - 1}).to(f16).to_vector<double>());
}

TEST_CASE("isclose: equal integers are close beyond 2^53, others by their distance",
          "[composite]") {
  const i64 big = i64{1} << 60;
  const Tensor a = tensor(std::vector<i64>{big, 3, 5}), b = tensor(std::vector<i64>{big, 4, 7});
  CHECK(isclose(a, b, {.rtol = 0, .atol = 1}).to_vector<double>() == Doubles{1, 1, 0});
  const Tensor one = tensor({1.0, 1.0}, {.dtype = f64}),
               beside = tensor({1.0 + 1e-12, 1.0}, {.dtype = f64});
  CHECK(isclose(one, beside, {.rtol = 0, .atol = 0}).to_vector<double>() == Doubles{0, 1});
  CHECK(isclose(tensor({1.0, 2.0}, {.requires_grad = true}), tensor({1.0, 2.5}))
            .to_vector<double>() == Doubles{1, 0});
}

TEST_CASE("broadcast_to is a view, tile and diff are copies", "[composite]") {
  const Tensor x = tensor({1.0, 2.0});
  CHECK(broadcast_to(x, {3, 2}).strides()[0] == 0);
  Tensor copy = tile(x, {1});
  copy.fill_(7);
  copy = diff(x, {.n = 0});
  copy.fill_(7);
  CHECK(x.to_vector<double>() == Doubles{1, 2});
}

TEST_CASE("isclose: the distance of integers is exact, whatever their size", "[composite]") {
  constexpr i64 kFar = i64{1} << 53;
  const i64 least = INT64_MIN, most = INT64_MAX;
  for (const Device d : kernel_devices()) {
    const Tensor a = tensor({kFar, kFar, most, least, most, i64{5}}).to(d);
    const Tensor b = tensor({kFar + 1, kFar, most - 1, most, least, i64{7}}).to(d);
    const auto close = [&](double atol) {
      return isclose(a, b, {.rtol = 0, .atol = atol}).to_vector<double>();
    };
    CHECK(close(0) == std::vector<double>{0, 1, 0, 0, 0, 0});
    CHECK(close(0.5) == std::vector<double>{0, 1, 0, 0, 0, 0});
    CHECK(close(1) == std::vector<double>{1, 1, 1, 0, 0, 0});
    CHECK(close(2) == std::vector<double>{1, 1, 1, 0, 0, 1});
    CHECK(close(0x1p64) == std::vector<double>(6, 1));
    CHECK(!allclose(a.narrow(0, 0, 1), b.narrow(0, 0, 1), {.rtol = 0, .atol = 0}));
  }
  const Tensor u = tensor(std::vector<u64>{u64(1) << 63, ~u64(0)});
  const Tensor v = tensor(std::vector<u64>{(u64(1) << 63) - 1, 0});
  CHECK(isclose(u, v, {.rtol = 0, .atol = 1}).to_vector<double>() == std::vector<double>{1, 0});
}

TEST_CASE("lerp: at equal and at infinite ends", "[composite]") {
  const double inf = kInf, nan = std::nan("");
  const struct {
    double a, b, w, right;
  } cases[] = {{inf, inf, 0.3, inf},  {-inf, -inf, 0.7, -inf}, {1, inf, 0, 1},
               {1, inf, 0.3, inf},    {1, inf, 0.7, inf},      {1, inf, 1, inf},
               {-inf, 1, 0.3, -inf},  {-inf, 1, 0.7, -inf},    {-inf, 1, 1, 1},
               {-inf, inf, 0.5, nan}, {-inf, inf, 0, -inf},    {-inf, inf, 1, inf},
               {nan, nan, 0, nan},    {1, nan, 0, nan},        {1, 3, 0.25, 1.5},
               {1, 3, 2, 5},          {2, 2, nan, nan},        {inf, inf, nan, nan}};
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, DType::f16, DType::bf16})
      for (const auto& c : cases) {
        INFO(dtype_name(t) << " " << c.a << " " << c.b << " " << c.w);
        const Tensor a = full({20}, c.a, {.dtype = t, .device = d}),
                     b = full({20}, c.b, {.dtype = t, .device = d}),
                     w = full({20}, c.w, {.dtype = t, .device = d});
        for (const Tensor& y : {lerp(a, b, c.w), lerp(a, b, w), Tensor(a.clone().lerp_(b, c.w))})
          for (const double v : y.to_vector<double>())
            CHECK((v == c.right || (v != v && c.right != c.right)));
      }
  // Ends that are further apart than the largest number.
  const Tensor low = full({1}, -3e38), high = full({1}, 3e38);
  CHECK(lerp(low, high, 0.5).item() == 0);
  const Tensor w = tensor({0.5}, {.dtype = f64, .requires_grad = true});
  const Tensor end = full({1}, inf, {.dtype = f64});
  CHECK(grad(lerp(end, end, w), w).item() == 0);
}
