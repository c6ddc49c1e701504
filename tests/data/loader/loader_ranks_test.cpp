// Loaders of several ranks that share each batch.
#include "warptape/core/factories.h"
#include "warptape/data/loader.h"
#include "warptape/data/resident_loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::data;

namespace {

TensorDataset numbers(i64 n) { return {arange(n), arange(n)}; }

using Batches = std::vector<std::vector<i64>>;

template <class L>
Batches rest_of_epoch(L& loader) {
  Batches all;
  for (auto& [x, y] : loader) all.push_back(x.template to_vector<i64>());
  return all;
}

// The parts of all ranks, one behind the other, batch by batch. L: the loader's type.
template <class L>
Batches joined(i64 n, LoaderOptions o, i64 world, i64 epochs) {
  Batches whole;
  for (i64 r = 0; r < world; ++r) {
    o.rank = r, o.world = world;
    L loader{numbers(n), o};
    size_t k = 0;
    for (i64 e = 0; e < epochs; ++e)
      for (const std::vector<i64>& part : rest_of_epoch(loader)) {
        CHECK(!part.empty());
        CHECK(i64(part.size()) <= (o.batch + world - 1) / world);
        if (r == 0) whole.emplace_back();
        REQUIRE(k < whole.size());
        whole[k].insert(whole[k].end(), part.begin(), part.end());
        ++k;
      }
    CHECK(k == whole.size());
  }
  return whole;
}

template <class L>
void check_parts() {
  for (const i64 n : {23, 24, 40})
    for (const bool shuffle : {false, true})
      for (const bool drop : {false, true}) {
        const LoaderOptions o{.batch = 8, .shuffle = shuffle, .seed = 3, .drop_last = drop};
        const Batches alone = joined<L>(n, o, 1, 2);
        CHECK(alone.size() == size_t(2 * (drop ? n / 8 : (n + 7) / 8)));
        for (const i64 world : {2, 3, 4, 7}) {
          CAPTURE(n, shuffle, drop, world);
          CHECK(joined<L>(n, o, world, 2) == alone);
        }
      }
}

}  // namespace

TEST_CASE("loader: the parts of all ranks are the batches of one process", "[trap][T21]") {
  check_parts<Loader<TensorDataset>>();
  check_parts<ResidentLoader<TensorDataset>>();
}

TEST_CASE("loader: a last batch with fewer samples than ranks is left out, for all of them") {
  for (i64 rank = 0; rank < 4; ++rank) {
    Loader loader{numbers(19), {.batch = 8, .rank = rank, .world = 4}};
    CHECK(loader.size() == 2);
    CHECK(rest_of_epoch(loader).size() == 2);
    ResidentLoader resident{numbers(19), {.batch = 8, .rank = rank, .world = 4}};
    CHECK(resident.size() == 2);
    CHECK(rest_of_epoch(resident).size() == 2);
  }
}

TEST_CASE("loader: a position holds for another number of ranks") {
  Loader four{numbers(40), {.batch = 8, .shuffle = true, .seed = 1, .rank = 2, .world = 4}};
  Batch batch;
  for (int i = 0; i < 7; ++i)
    if (!four.next(batch)) REQUIRE(four.next(batch));
  const LoaderOptions alone{.batch = 8, .shuffle = true, .seed = 1};
  Loader one{numbers(40), alone}, expected{numbers(40), alone};
  one.set_state(four.state());
  rest_of_epoch(expected);
  for (int i = 0; i < 2; ++i) REQUIRE(expected.next(batch));
  CHECK(rest_of_epoch(one) == rest_of_epoch(expected));
}

TEST_CASE("loader: ranks that make no sense") {
  const auto message = [](LoaderOptions o) { return message_of([&] { Loader{numbers(9), o}; }); };
  CHECK(message({.batch = 4, .rank = 2, .world = 2}) ==
        "UsageError: [Loader] rank must be in [0, world), got 2 of 2");
  CHECK(message({.batch = 4, .rank = 0, .world = 0}) ==
        "UsageError: [Loader] rank must be in [0, world), got 0 of 0");
  CHECK(message({.batch = 3, .rank = 0, .world = 4}) ==
        "UsageError: [Loader] a batch of 3 has no sample for each of 4 ranks");
}
