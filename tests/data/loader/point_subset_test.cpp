#include "warptape/data/point_subset.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

Tensor numbers(i64 n, Device d) {
  return arange(n, {.dtype = DType::f64, .device = Device::cpu()}).to(d);
}

template <class E, class F>
void check_throws(const F& f, const std::string& part) {
  CHECK_THROWS_AS(f(), E);
  CHECK(mentions(message_of(f), part));
}

}  // namespace

TEST_CASE("row 49: a tenth of the points, without replacement, fresh each time, on each device",
          "[points]") {
  std::vector<double> on_cpu;
  for (const Device d : wt_test::kernel_devices()) {
    INFO(to_string(d));
    manual_seed(5);
    const data::RandomPointSubset part{.ratio = 0.1};
    const Tensor x = numbers(10'000, ready(d));
    const Tensor first = part(x), second = part(x);
    CHECK(first.shape() == Shape{1000});
    CHECK(first.device() == x.device());
    const std::vector<double> a = first.to_vector<double>(), b = second.to_vector<double>();
    CHECK(std::set<double>(a.begin(), a.end()).size() == 1000);
    CHECK(*std::min_element(a.begin(), a.end()) >= 0);
    CHECK(*std::max_element(a.begin(), a.end()) < 10'000);
    CHECK(a != b);
    if (on_cpu.empty()) on_cpu = a;
    CHECK(a == on_cpu);  // the same points on all devices
  }
}

TEST_CASE("row 49: every point is equally likely, and every pair", "[points]") {
  manual_seed(6);
  constexpr int kDraws = 20'000;
  constexpr i64 kPoints = 10;
  const data::RandomPointSubset part{.ratio = 0.3};
  const Tensor sets = part.indices(kDraws, kPoints, Device::cpu());
  CHECK(sets.shape() == Shape{kDraws, 3});
  const std::vector<i64> at = sets.to_vector<i64>();
  double once[kPoints] = {}, pairs[kPoints][kPoints] = {}, first[kPoints] = {};
  for (size_t k = 0; k < at.size(); k += 3) {
    ++first[at[k]];
    for (size_t i = 0; i < 3; ++i) {
      ++once[at[k + i]];
      for (size_t j = 0; j < 3; ++j) pairs[at[k + i]][at[k + j]] += i != j;
    }
  }
  // Five deviations of a count of kDraws draws.
  const auto near = [](double count, double p) {
    return std::fabs(count - kDraws * p) < 5 * std::sqrt(kDraws * p * (1 - p));
  };
  for (i64 i = 0; i < kPoints; ++i) {
    CHECK(near(once[i], 0.3));
    CHECK(near(first[i], 0.1));
    CHECK(pairs[i][i] == 0);
    for (i64 j = 0; j < i; ++j) CHECK(near(pairs[i][j], 3.0 * 2 / (10 * 9)));
  }
}

TEST_CASE("row 49: the loss of the part is an unbiased estimate, and so is its gradient",
          "[points]") {
  manual_seed(7);
  constexpr int kSteps = 4000;
  const Tensor x = randn({200, 1}, {.dtype = DType::f64});
  const Tensor y = 3 * x + randn({200, 1}, {.dtype = DType::f64});
  Tensor w = ones({1, 1}, {.dtype = DType::f64, .requires_grad = true});
  const auto loss = [&](const Tensor& p) {
    return mean(square(p.narrow(1, 0, 1) * w - p.narrow(1, 1, 1)));
  };
  const Tensor all = cat({x, y}, 1);
  const double whole = loss(all).item(), slope = grad(loss(all), w).item();
  const data::RandomPointSubset part{.ratio = 0.1};
  double sum = 0, squares = 0, slopes = 0, slope_squares = 0;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor l = loss(part(all));
    const double v = l.item(), g = grad(l, w).item();
    sum += v, squares += v * v, slopes += g, slope_squares += g * g;
  }
  const auto unbiased = [&](double total, double of_squares, double want) {
    const double m = total / kSteps, deviation = std::sqrt(of_squares / kSteps - m * m);
    CHECK(deviation > 0);
    CHECK(std::fabs(m - want) < 4 * deviation / std::sqrt(double(kSteps)));
    return deviation;
  };
  const double spread = unbiased(sum, squares, whole);
  unbiased(slopes, slope_squares, slope);
  // Without replacement it is (1 - ratio) / n of the points' variance, with it would be 1 / n.
  const Tensor each = square(x * w - y);
  const double variance = (mean(square(each)) - square(mean(each))).item() * 200 / 199;
  const double expected = std::sqrt(variance * 0.9 / 20);
  CHECK(std::fabs(spread - expected) < 0.04 * expected);
}

TEST_CASE("row 49: each shape of a batch has a subset of its own, and gradients reach it",
          "[points]") {
  for (const Device d : wt_test::kernel_devices()) {
    INFO(to_string(d));
    manual_seed(8);
    Tensor x = numbers(4 * 50 * 2, ready(d)).reshape({4, 50, 2}).clone();
    x.set_requires_grad();
    const data::RandomPointSubset part{.ratio = 0.2};
    const Tensor y = part(x, 1);
    CHECK(y.shape() == Shape{4, 10, 2});
    const std::vector<double> v = y.detach().to_vector<double>();
    std::set<double> places, rows[4];
    for (size_t k = 0; k < v.size(); k += 2) {
      CHECK(v[k + 1] == v[k] + 1);  // a point stays whole
      CHECK(i64(v[k]) / 100 == i64(k / 20));
      places.insert(v[k]);
      rows[k / 20].insert(v[k] - double(100 * (k / 20)));
    }
    CHECK(places.size() == 40);
    CHECK(rows[0] != rows[1]);
    sum(y).backward();
    CHECK(sum(x.grad()).item() == 80);
    CHECK(max(x.grad()).item() == 1);
  }
}

TEST_CASE("row 49: counts, and what is refused", "[points]") {
  CHECK(data::RandomPointSubset{.ratio = 0.1}.count(10'000) == 1000);
  CHECK(data::RandomPointSubset{.ratio = 0.001}.count(10) == 1);
  CHECK(data::RandomPointSubset{.ratio = 1}.count(10) == 10);
  for (const double ratio : {0.0, -0.5, 1.5, std::nan("")})
    check_throws<UsageError>([&] { data::RandomPointSubset{.ratio = ratio}.count(10); },
                             "must be above 0 and at most 1");
  check_throws<UsageError>([] { data::RandomPointSubset{}.count(0); }, "there must be points");
  check_throws<ShapeError>(
      [] {
        (void)data::RandomPointSubset{}(zeros({4, 3}), 2);
      },
      "axis must be 0");
  check_throws<ShapeError>([] { (void)data::RandomPointSubset{}(zeros({4}), 1); },
                           "expected points along axis 1");
}
