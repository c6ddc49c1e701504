// Parts of datasets, chains of them, random splits.
#include "warptape/data/combine.h"

#include <algorithm>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/data/loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::data;

namespace {

TensorDataset numbers(i64 n, i64 from = 0) {
  return {arange(from, from + n).view({n, 1}), arange(from, from + n)};
}
std::vector<i64> targets(const Batch& b) { return b.y.to_vector<i64>(); }
template <Dataset D>
std::vector<i64> all(const D& d) {
  std::vector<i64> every(size_t(d.size()));
  for (size_t i = 0; i < every.size(); ++i) every[i] = i64(i);
  return every.empty() ? every : targets(d.batch(every));
}

}  // namespace

TEST_CASE("subset: its samples in its order, those of the whole by index") {
  const Subset part{numbers(10), {7, 1, 1, 9}};
  CHECK(part.size() == 4);
  CHECK(all(part) == std::vector<i64>{7, 1, 1, 9});
  const i64 pick[] = {3, 0};
  CHECK(part.batch(pick).x.to_vector<i64>() == std::vector<i64>{9, 7});
  CHECK_THROWS_AS((Subset{numbers(10), {10}}), IndexError);
  CHECK_THROWS_AS((Subset{numbers(10), {-1}}), IndexError);
  const i64 outside[] = {4};
  CHECK_THROWS_AS(part.batch(outside), IndexError);
  const Subset nested{part, {3, 2}};
  CHECK(all(nested) == std::vector<i64>{9, 1});
}

TEST_CASE("concat: one after the other, batches across the seams in the order asked for") {
  const Concat both{numbers(3), Subset{numbers(10, 100), {5, 4}}, numbers(0), numbers(1, 50)};
  CHECK(both.size() == 6);
  CHECK(all(both) == std::vector<i64>{0, 1, 2, 105, 104, 50});
  const i64 pick[] = {5, 0, 3, 2, 4, 0};
  const Batch b = both.batch(pick);
  CHECK(targets(b) == std::vector<i64>{50, 0, 105, 2, 104, 0});
  CHECK(b.x.shape() == Shape{6, 1});
  CHECK(b.x.to_vector<i64>() == targets(b));
  const i64 outside[] = {6};
  CHECK(mentions(message_of([&] { both.batch(outside); }), "sample 6 is outside [0, 6)"));
  CHECK_THROWS_AS(Concat(std::vector<AnyDataset>{}), UsageError);
  CHECK(Concat{numbers(2)}.size() == 2);
}

TEST_CASE("concat: samples that do not fit into one batch are refused by name") {
  const Concat shapes{numbers(2), TensorDataset{zeros({2, 3}, {.dtype = DType::i64}), arange(2)}};
  const i64 first[] = {0, 1}, mixed[] = {1, 2};
  CHECK(targets(shapes.batch(first)) == std::vector<i64>{0, 1});
  CHECK(mentions(message_of([&] { shapes.batch(mixed); }), "the parts' inputs do not fit"));
  const Concat types{numbers(2), TensorDataset{zeros({2, 1}), arange(2)}};
  CHECK_THROWS_AS(types.batch(mixed), DtypeError);
}

TEST_CASE(
    "random split: parts without overlap that together are everything, a function of the "
    "seed") {
  const auto [a, b, c] = random_split(numbers(103), {0.5, 0.3, 0.2}, {.seed = 3});
  CHECK(a.size() == 52);  // 51.5 rounded down, and one of the two that are left over
  CHECK(b.size() == 31);
  CHECK(c.size() == 20);
  std::vector<i64> together = all(a);
  for (i64 i : all(b)) together.push_back(i);
  for (i64 i : all(c)) together.push_back(i);
  CHECK(!std::is_sorted(together.begin(), together.end()));
  CHECK(std::set<i64>(together.begin(), together.end()).size() == 103);
  CHECK(together.size() == 103);
  CHECK(all(random_split(numbers(103), {0.5, 0.3, 0.2}, {.seed = 3})[0]) == all(a));
  CHECK(all(random_split(numbers(103), {0.5, 0.3, 0.2}, {.seed = 4})[0]) != all(a));
  CHECK(all(random_split(numbers(103), {52, 31, 20}, {.seed = 3})[1]) == all(b));
  CHECK(all(a) != epoch_order(103, true, 3, 0));  // not the first epoch of a loader with that seed
  const auto [none, every] = random_split(numbers(4), {0, 4});
  CHECK(none.size() == 0);
  CHECK(every.size() == 4);
}

TEST_CASE("random split: lengths that do not add up") {
  const TensorDataset d = numbers(10);
  const auto error = [&](Scalar x, Scalar y) {
    return message_of([&] { random_split(d, {x, y}); });
  };
  CHECK(mentions(error(5, 4), "the lengths add up to 9, the dataset has 10 samples"));
  CHECK(mentions(error(0.5, 0.4), "the fractions add up to 0.9"));
  CHECK(mentions(error(11, -1), "a part of -1 samples"));
  CHECK(mentions(error(i64{1} << 62, i64{1} << 62), "the lengths add up to"));
  CHECK(mentions(error(std::nan(""), 1.0), "makes no sense"));
}

TEST_CASE("random split and its like feed a loader that owns them") {
  Loader loader{random_split(numbers(20), {0.75, 0.25})[0], {.batch = 4, .shuffle = true}};
  i64 n = 0;
  for (auto& [x, y] : loader) n += y.size(0);
  CHECK(n == 15);
  Loader chained{Concat{numbers(2), numbers(3)}, {.batch = 4}};
  n = 0;
  for (auto& [x, y] : chained) n += y.size(0);
  CHECK(n == 5);
}
