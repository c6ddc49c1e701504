// Extremes with places, medians, quantiles, unique, searchsorted, scatter_reduce: what the rows
// cannot say.
#include "warptape/autograd/ops/order.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/scatter_reduce.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;

namespace {
using Values = std::vector<double>;
using Places = std::vector<i64>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double value(const Tensor& t) { return t.to_vector<double>()[0]; }
i64 place(const Tensor& t) { return t.to_vector<i64>()[0]; }
Tensor leaf(const Tensor& t) { return t.to(f64).clone().set_requires_grad(); }
}  // namespace

TEST_CASE("order: the first NaN wins extremes and medians, nanmedian passes over it",
          "[autograd]") {
  for (const Device d : wt_test::kernel_devices())
    for (const DType t : {f64, f32, DType::f16, DType::bf16}) {
      const Tensor x = tensor({1.0, kNan, -kInf, 3.0, kNan, kInf}).to(t).to(d);
      for (const PlacedResult& r : {max_with_indices(x, 0), min_with_indices(x, 0), median(x, 0)}) {
        CHECK(std::isnan(value(r.values)));
        CHECK(place(r.indices) == 1);
      }
      CHECK(std::isnan(value(median(x))));
      CHECK(std::isnan(value(quantile(x, 0.0, 0))));
      // Of -inf, 1, 3, inf the lower one.
      CHECK(value(nanmedian(x, 0).values) == 1);
      CHECK(place(nanmedian(x, 0).indices) == 0);
      const Tensor none = tensor({kNan, kNan}).to(t).to(d);
      CHECK(std::isnan(value(nanmedian(none, 0).values)));
      CHECK(place(nanmedian(none, 0).indices) == 0);
      CHECK(place(kthvalue(x, 5).indices) == 1);
    }
}

TEST_CASE("order: equal elements, one of which has the gradient, or all", "[autograd]") {
  const Tensor x = leaf(tensor({2.0, 3.0, 2.0, 3.0, 2.0}));
  CHECK(grad(max_with_indices(x, 0).values, x).to_vector<double>() == Values{0, 1, 0, 0, 0});
  CHECK(grad(min_with_indices(x, 0).values, x).to_vector<double>() == Values{1, 0, 0, 0, 0});
  CHECK(grad(median(x, 0).values, x).to_vector<double>() == Values{0, 0, 0, 0, 1});
  CHECK(grad(amax(x, 0), x).to_vector<double>() == Values{0, 0.5, 0, 0.5, 0});
  CHECK(grad(amin(x), x).to_vector<double>()[1] == 0);
  // PyTorch's median() of a whole tensor shares it.
  const Tensor g = grad(median(x), x);
  CHECK(g.to_vector<double>()[0] == 1.0 / 3);
  CHECK(g.to_vector<double>()[1] == 0);
  CHECK(!max_with_indices(x, 0).indices.requires_grad());
}

TEST_CASE("quantile refuses what is outside [0, 1], in a tensor by its index", "[autograd]") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  CHECK_THROWS_AS(quantile(x, kNan, 0), UsageError);
  CHECK_THROWS_AS(quantile(x, tensor({0.5, 1.75}), 0), IndexError);
  CHECK_THROWS_AS(quantile(x, tensor({-0.75}), 0), IndexError);
}

TEST_CASE("unique: every NaN for itself, zeros of both signs are one", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    const UniqueResult r = unique(tensor({kNan, -0.0, 2.0, 0.0, kNan, -kInf}).to(d));
    CHECK(r.values.shape() == Shape{5});
    CHECK(r.counts.to_vector<i64>() == Places{1, 2, 1, 1, 1});
    CHECK(r.inverse.to_vector<i64>() == Places{3, 1, 2, 1, 4, 0});
  }
  CHECK_THROWS_AS(unique(empty({3}, {.device = Device::meta()})), UsageError);
}

TEST_CASE("searchsorted: infinities, NaN and lists of nothing", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor list = tensor({-kInf, 0.0, 0.0, kInf}).to(d);
    const Tensor v = tensor({-kInf, -0.0, kInf, kNan}).to(d);
    CHECK(searchsorted(list, v).to_vector<i64>() == Places{0, 1, 3, 4});
    CHECK(searchsorted(list, v, {.right = true}).to_vector<i64>() == Places{1, 3, 4, 4});
    CHECK(bucketize(v, empty({0}, {.device = d})).to_vector<i64>() == Places{0, 0, 0, 0});
  }
}

TEST_CASE("scatter_reduce: NaN wins, zeros have the other factors' gradient", "[autograd]") {
  using enum ScatterReduction;
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor at = tensor(Places{0, 0, 2, 2}).to(d), x = tensor({1.0, 5.0, 9.0}).to(d);
    const Tensor from = tensor({kNan, 2.0, 3.0, 4.0}).to(d);
    for (const ScatterReduction r : {amax, amin, prod, sum, mean}) {
      const Values y = scatter_reduce(x, 0, at, from, r).to_vector<double>();
      CHECK(std::isnan(y[0]));
      CHECK(y[1] == 5);
      CHECK(!std::isnan(y[2]));
    }
  }
  const Tensor at = tensor(Places{0, 0, 0, 1}), x = leaf(tensor({2.0, 1.0}));
  const Tensor from = leaf(tensor({0.0, 3.0, 5.0, 1.0}));
  CHECK(grad(scatter_reduce(x, 0, at, from, prod).sum(), from).to_vector<double>() ==
        Values{30, 0, 0, 1});
  // Three that share an extreme: x's own and two of the source.
  const Tensor y = leaf(tensor({7.0})), many = leaf(tensor({7.0, 1.0, 7.0}));
  const Tensor top = scatter_reduce(y, 0, tensor(Places{0, 0, 0}), many, amax);
  CHECK(grad(top.sum(), many).to_vector<double>() == Values{1.0 / 3, 0, 1.0 / 3});
  const Tensor alone =
      scatter_reduce(y, 0, tensor(Places{0, 0, 0}), many, amax, {.include_self = false});
  CHECK(grad(alone.sum(), many).to_vector<double>() == Values{0.5, 0, 0.5});
}

TEST_CASE("quantile: infinities that nothing is interpolated with, and their gradients",
          "[autograd]") {
  const std::vector<Interpolation> all{Interpolation::linear, Interpolation::midpoint,
                                       Interpolation::lower, Interpolation::higher,
                                       Interpolation::nearest};
  for (const Device d : wt_test::kernel_devices())
    for (const DType t : {f64, f32, DType::f16, DType::bf16})
      for (const Interpolation i : all) {
        const QuantileOptions o{.interpolation = i};
        CHECK(value(quantile(tensor({kInf, 5.0, 4.0}).to(t).to(d), 1.0, 0, o)) == kInf);
        CHECK(value(quantile(tensor({-kInf, -kInf, 3.0, 4.0, 5.0}).to(t).to(d), 0, 0, o)) == -kInf);
        CHECK(value(quantile(tensor({-kInf, -kInf, 3.0}).to(t).to(d), 0.25, 0, o)) == -kInf);
        CHECK(value(quantile(tensor({-kInf, 3.0, kInf}).to(t).to(d), 0.5, 0, o)) == 3);
      }
  const Tensor x = leaf(tensor({kInf, 5.0, kInf, 4.0})), q = leaf(tensor({1.0, 0.875}));
  CHECK(value(quantile(x, 0.5, 0)) == kInf);  // half-way from 5
  const std::vector<Tensor> g = grads(quantile(x, q, 0).select(0, 0), {x, q});
  CHECK(g[0].to_vector<double>() == Values{0, 0, 1, 0});
  CHECK(g[1].to_vector<double>() == Values{0, 0});
  CHECK(sum(grad(sum(quantile(x, q, 0)), x)).item() == 2);
}

TEST_CASE("quantile: ranks of long rows keep their fractions", "[autograd]") {
  // Zeros, and ones from place k + 1 on: the value is the fraction of a rank between k and k + 1.
  const i64 n = 300001, k = 209999;
  const Tensor x = gt(arange(n), k).to(f32);
  CHECK(std::abs(quantile(x, 0.69999877, 0).item() - (0.69999877 * double(n - 1) - double(k))) <
        1e-6);
}
