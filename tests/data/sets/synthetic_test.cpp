// Data without files: reproducible by index, and of the kind that is promised.
#include "warptape/data/synthetic.h"

#include <cmath>
#include <map>
#include <numeric>

#include "warptape/data/loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::data;

namespace {

std::vector<i64> first(i64 n) {
  std::vector<i64> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

// A sample is the same alone, in a batch, and at another place in it.
template <Dataset D>
void check_by_index(const D& d) {
  const i64 one[] = {5}, some[] = {2, 5, 0};
  const Batch a = d.batch(one), b = d.batch(some).narrow(1, 1);
  CHECK(a.x.to_vector<double>() == b.x.to_vector<double>());
  CHECK(a.y.to_vector<i64>() == b.y.to_vector<i64>());
  const i64 outside[] = {d.size()};
  CHECK_THROWS_AS(d.batch(outside), IndexError);
}

}  // namespace

TEST_CASE("synthetic images: shapes, classes, patterns under the noise") {
  const SyntheticImages d({.samples = 600, .classes = 4, .channels = 2, .height = 16, .width = 8});
  check_by_index(d);
  const Batch b = d.batch(first(600));
  CHECK(b.x.shape() == Shape{600, 2, 16, 8});
  CHECK(b.x.dtype() == DType::f32);
  const auto x = b.x.to_vector<float>();
  const auto y = b.y.to_vector<i64>();
  std::map<i64, int> count;
  for (i64 k : y) ++count[k];
  REQUIRE(count.size() == 4);
  for (const auto& [k, n] : count) CHECK((k >= 0 && k < 4 && n > 100 && n < 200));
  double sum = 0, squares = 0;
  for (float v : x) sum += v, squares += double(v) * v;
  const double mean = sum / double(x.size());
  CHECK(std::abs(mean) < 0.3);
  CHECK(std::abs(squares / double(x.size()) - mean * mean - 1.25) < 0.4);  // 1 and 0.5 squared
  // The nearest class mean of other samples names most classes: there is something to learn.
  std::vector<std::vector<double>> means(4, std::vector<double>(256));
  for (size_t i = 0; i < 300; ++i)
    for (size_t p = 0; p < 256; ++p) means[size_t(y[i])][p] += x[i * 256 + p] / count[y[i]] * 2;
  int right = 0;
  for (size_t i = 300; i < 600; ++i) {
    std::vector<double> distance(4);
    for (size_t k = 0; k < 4; ++k)
      for (size_t p = 0; p < 256; ++p) distance[k] += std::pow(x[i * 256 + p] - means[k][p], 2);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == y[i];
  }
  CHECK(right > 240);
}

TEST_CASE("synthetic images: seeds differ, a test set goes on where the training set ends") {
  const auto values = [](const SyntheticImagesOptions& o, i64 at) {
    const i64 index[] = {at};
    return SyntheticImages(o).batch(index).x.to_vector<float>();
  };
  CHECK(values({.seed = 1}, 0) == values({.seed = 1}, 0));
  CHECK(values({.seed = 1}, 0) != values({.seed = 2}, 0));
  CHECK(values({}, 7) == values({.first = 7}, 0));
  CHECK(values({}, 7) != values({}, 8));
}

TEST_CASE("synthetic tokens: y is x one later, followers have the promised frequencies") {
  const SyntheticTokens d({.samples = 400, .context = 50, .vocabulary = 8, .choices = 3});
  check_by_index(d);
  const Batch b = d.batch(first(400));
  CHECK(b.x.shape() == Shape{400, 50});
  CHECK(b.y.shape() == Shape{400, 50});
  const auto x = b.x.to_vector<i64>(), y = b.y.to_vector<i64>();
  std::map<i64, std::map<i64, int>> after;
  for (size_t i = 0; i < x.size(); ++i) {
    REQUIRE((x[i] >= 0 && x[i] < 8 && y[i] >= 0 && y[i] < 8));
    if (i % 50 != 49) REQUIRE(x[i + 1] == y[i]);
    ++after[x[i]][y[i]];
  }
  double h = 0;
  for (const auto& [token, next] : after) {
    CHECK(next.size() <= 3);
    double total = 0;
    for (const auto& [t, n] : next) total += n;
    for (const auto& [t, n] : next) h -= n / double(x.size()) * std::log(n / total);
  }
  CHECK(std::abs(d.entropy() - (0.5 * std::log(2) + 0.5 * std::log(4))) < 1e-12);
  CHECK(std::abs(h - d.entropy()) < 0.01);
}

TEST_CASE("synthetic points: blobs, moons, circles, spirals") {
  for (const PointShape shape :
       {PointShape::blobs, PointShape::moons, PointShape::circles, PointShape::spirals}) {
    const SyntheticPoints d({.samples = 200, .shape = shape, .noise = 0});
    check_by_index(d);
    const Batch b = d.batch(first(200));
    CHECK(b.x.shape() == Shape{200, 2});
    const auto x = b.x.to_vector<float>();
    const auto y = b.y.to_vector<i64>();
    CHECK(std::accumulate(y.begin(), y.end(), i64{0}) > 60);
    CHECK(std::accumulate(y.begin(), y.end(), i64{0}) < 140);
    if (shape == PointShape::circles)
      for (size_t i = 0; i < 200; ++i)
        CHECK(std::abs(std::hypot(x[2 * i], x[2 * i + 1]) - (y[i] ? 0.5 : 1)) < 1e-6);
  }
  const SyntheticPoints cloud({.samples = 50, .classes = 5, .dimensions = 7});
  CHECK(cloud.batch(first(50)).x.shape() == Shape{50, 7});
}

TEST_CASE("synthetic data: options that make no sense") {
  CHECK_THROWS_AS(SyntheticImages({.samples = -1}), UsageError);
  CHECK_THROWS_AS(SyntheticImages({.classes = 0}), UsageError);
  CHECK_THROWS_AS(SyntheticImages({.noise = std::nan("")}), UsageError);
  CHECK_THROWS_AS(SyntheticTokens({.vocabulary = 3}), UsageError);  // 4 choices of 3 tokens
  CHECK_THROWS_AS(SyntheticPoints({.shape = PointShape::moons, .classes = 3}), UsageError);
  CHECK_THROWS_AS(SyntheticPoints({.shape = PointShape::spirals, .dimensions = 3}), UsageError);
}
