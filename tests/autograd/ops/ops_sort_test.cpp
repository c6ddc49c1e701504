// Scans, sorting, counting and drawing: what the rows cannot say.
#include "warptape/autograd/ops/sort.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/scan.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;

namespace {
using Values = std::vector<double>;
using Places = std::vector<i64>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("NaN is larger than any number, -0 equals 0", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    for (const DType t : {f64, f32, DType::f16, DType::bf16}) {
      const Tensor x = tensor({1.0, kNan, -kInf, 0.0, kInf, -0.0, kNan, -1.0}).to(t).to(d);
      CHECK(argsort(x).to_vector<i64>() == Places{2, 7, 3, 5, 0, 4, 1, 6});
      CHECK(argsort(x, 0, {.descending = true}).to_vector<i64>() == Places{1, 6, 4, 0, 3, 5, 7, 2});
      CHECK(topk(x, 3).indices.to_vector<i64>() == Places{1, 6, 4});
      CHECK(topk(x, 2, 0, {.largest = false}).indices.to_vector<i64>() == Places{2, 7});
      CHECK(std::isnan(sort(x).values.to_vector<double>()[7]));
      CHECK(!std::signbit(sort(x).values.to_vector<double>()[2]));
    }
    const i64 least = std::numeric_limits<i64>::min(), most = std::numeric_limits<i64>::max();
    const Tensor n = tensor(Places{most, least, 0, most - 1}, {.dtype = DType::i64}).to(d);
    CHECK(sort(n).values.to_vector<i64>() == Places{least, 0, most - 1, most});
    CHECK(argsort(n, 0, {.descending = true}).to_vector<i64>() == Places{0, 3, 2, 1});
  }
}

TEST_CASE("sort hands both of its outputs the same order under a graph", "[autograd]") {
  Tensor x = tensor({{3.0, 1.0, 2.0}, {1.0, 1.0, 0.0}}).to(f64).clone().set_requires_grad();
  const SortResult r = sort(x, 1, {.descending = true});
  CHECK(r.values.to_vector<double>() == Values{3, 2, 1, 1, 1, 0});
  CHECK(r.indices.to_vector<i64>() == Places{0, 2, 1, 0, 1, 2});
  CHECK(!r.indices.requires_grad());
  const Tensor w = tensor({{1.0, 10.0, 100.0}, {1.0, 10.0, 100.0}}).to(f64);
  CHECK(grad((r.values * w).sum(), x).to_vector<double>() == Values{1, 100, 10, 1, 10, 100});
}

TEST_CASE("bincount takes every integer dtype", "[autograd]") {
  for (const DType t : {DType::i64, DType::i32, DType::u8})
    CHECK(bincount(tensor({3, 0, 3, 1}).to(t)).to_vector<i64>() == Places{1, 1, 0, 2});
  CHECK(bincount(tensor({1, 0, 1}).to(DType::boolean), 3).to_vector<i64>() == Places{1, 2, 0});
  CHECK(bincount(empty({0}, {.dtype = DType::i64})).shape() == Shape{0});
  CHECK_THROWS_AS(bincount(empty({3}, {.dtype = DType::i64, .device = Device::meta()})),
                  UsageError);
}

TEST_CASE("multinomial: one seed, the same places; a call that throws has drawn nothing",
          "[autograd]") {
  Places everywhere;
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor p = tensor({{0.1, 0.0, 0.4, 0.5}, {1.0, 1.0, 1.0, 0.0}}).to(d);
    manual_seed(5);
    const Places first = multinomial(p, 100, {.replacement = true}).to_vector<i64>();
    const Places second = multinomial(p, 100, {.replacement = true}).to_vector<i64>();
    CHECK(first != second);
    manual_seed(5);
    CHECK_THROWS_AS(multinomial(p, 4), UsageError);
    CHECK(multinomial(p, 100, {.replacement = true}).to_vector<i64>() == first);
    CHECK(multinomial(p, 2).shape() == Shape{2, 2});
    if (everywhere.empty()) everywhere = first;
    CHECK(first == everywhere);
  }
  CHECK(multinomial(empty({3, 4}, {.device = Device::meta()}), 2).shape() == Shape{3, 2});
}

TEST_CASE("multinomial draws in proportion", "[autograd]") {
  manual_seed(17);
  const i64 n = 40'000;
  const Tensor p = tensor({1.0, 0.0, 3.0, 6.0});
  const Places with = bincount(multinomial(p, n, {.replacement = true}), 4).to_vector<i64>();
  const Tensor rows = p.unsqueeze(0).expand({n, 4});
  const Places first = bincount(multinomial(rows, 1).reshape({n}), 4).to_vector<i64>();
  for (const Places& c : {with, first}) {
    CHECK(c[1] == 0);
    for (const auto& [place, share] : {std::pair<size_t, double>{0, 0.1}, {2, 0.3}, {3, 0.6}})
      CHECK(std::abs(double(c[place]) - share * double(n)) <
            5 * std::sqrt(double(n) * share * (1 - share)));
  }
}

TEST_CASE("scans and sorts: equal bits for 1 and 2 threads", "[autograd]") {
  Values v;
  for (int i = 0; i < 90'000; ++i) v.push_back(std::sin(i * 0.37) * 1.01);
  const Tensor x = tensor(v).to(f32).view({300, 300});
  const int before = num_threads();
  std::vector<Values> first;
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    manual_seed(3);
    const std::vector<Values> now{cumsum(x, 0).to_vector<double>(),
                                  cumprod(x, 1).to_vector<double>(),
                                  linear_scan(x, x, 1, {.reverse = true}).to_vector<double>(),
                                  sort(x, 0).values.to_vector<double>(),
                                  topk(x, 9).indices.to_vector<double>(),
                                  multinomial(x * x, 20).to_vector<double>()};
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(before);
}

TEST_CASE("running sums are carried in f64", "[autograd]") {
  const i64 n = 100'000;
  const Tensor y = cumsum(full({n}, 0.1), 0);
  CHECK(std::abs(y.to_vector<double>().back() / (double(n) * double(0.1f)) - 1) < 1e-7);
  CHECK(std::isnan(cumsum(tensor({1.0, kNan, 2.0}), 0).to_vector<double>()[2]));
  CHECK(cumsum(tensor({1.0, kInf, 2.0}), 0).to_vector<double>() == Values{1, kInf, kInf});
  CHECK(cumsum(tensor({1, 1, 1}).to(DType::boolean), 0).to_vector<i64>() == Places{1, 2, 3});
}

TEST_CASE("scans and sorts of more than 2^31 elements on meta", "[autograd]") {
  const i64 many = (i64{1} << 31) + 1;
  const Tensor x = empty({2, many}, {.device = Device::meta()});
  CHECK(cumsum(x, 1).shape() == Shape{2, many});
  CHECK(argsort(x, 1).shape() == Shape{2, many});
  CHECK(topk(x, 3, 1).values.shape() == Shape{2, 3});
}
