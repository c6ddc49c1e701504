// Samplers: any order a function gives, and draws by weight.
#include "warptape/data/sampler.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/data/loader.h"
#include "warptape/data/tokens.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

// Samples 0 .. n-1, and how many batches were made.
struct Counted {
  i64 n = 0;
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  i64 size() const { return n; }
  Batch batch(std::span<const i64> indices) const {
    ++*calls;
    const Tensor t = tensor(std::vector<i64>(indices.begin(), indices.end()));
    return {t, t};
  }
};

std::vector<i64> rest(Loader<Counted>& loader) {
  std::vector<i64> seen;
  for (auto& [x, y] : loader)
    for (i64 v : y.to_vector<i64>()) seen.push_back(v);
  return seen;
}

// Every third sample twice, from one that the epoch says.
std::vector<i64> thirds(i64 epoch) {
  std::vector<i64> order;
  for (i64 i = 0; i < 10; ++i) {
    order.push_back((3 * i + epoch) % 30);
    order.push_back(order.back());
  }
  return order;
}

}  // namespace

TEST_CASE("loader: a sampler says which samples an epoch has and in which order") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    Loader loader{Counted{30}, {.batch = 6, .workers = workers, .sampler = thirds}};
    CHECK(loader.size() == 4);  // of 20 samples
    for (i64 epoch = 0; epoch < 3; ++epoch) CHECK(rest(loader) == thirds(epoch));
    Loader dropped{Counted{30},
                   {.batch = 6, .drop_last = true, .workers = workers, .sampler = thirds}};
    CHECK(dropped.size() == 3);
    CHECK(rest(dropped).size() == 18);
  }
}

TEST_CASE("loader: with a sampler, too, its position comes back in the middle of an epoch") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const LoaderOptions o{.batch = 6, .workers = workers, .sampler = thirds};
    Loader a{Counted{30}, o};
    rest(a);
    Batch batch;
    for (int i = 0; i < 2; ++i) REQUIRE(a.next(batch));
    Loader b{Counted{30}, o};
    REQUIRE(b.next(batch));
    b.set_state(a.state());
    const std::vector<i64> order = thirds(1), left(order.begin() + 12, order.end());
    CHECK(rest(a) == left);
    CHECK(rest(b) == left);
    CHECK_THROWS_AS(b.set_state({0, 5}), UsageError);
    b.set_state({7, 4});
    CHECK(rest(b).empty());
    CHECK(rest(b) == thirds(8));
  }
}

TEST_CASE("loader: a sampler is asked once an epoch") {
  const auto calls = std::make_shared<std::vector<i64>>();
  Loader loader{Counted{30}, {.batch = 6, .sampler = [calls](i64 epoch) {
                                calls->push_back(epoch);
                                return thirds(epoch);
                              }}};
  rest(loader);
  rest(loader);
  Batch batch;
  REQUIRE(loader.next(batch));
  loader.set_state({2, 3});
  CHECK(rest(loader).size() == 2);
  CHECK(*calls == std::vector<i64>{0, 1, 2});
}

TEST_CASE("loader: samples that are not there are refused before anything is read") {
  const LeakGuard leaks;
  const auto good_until = [](i64 last) {
    return [last](i64 epoch) { return std::vector<i64>{0, 1, epoch > last ? 30 : 2, 3}; };
  };
  const Counted set{30};
  CHECK(message_of([&] { Loader(set, {.batch = 2, .sampler = good_until(-1)}); }) ==
        "IndexError: [Loader] the sampler gives sample 30 at place 2 of epoch 0, outside [0, 30)");
  CHECK_THROWS_AS(Loader(set, {.sampler = [](i64) { return std::vector<i64>{-1}; }}), IndexError);
  CHECK(*set.calls == 0);
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    Loader loader{set, {.batch = 2, .workers = workers, .sampler = good_until(0)}};
    CHECK(rest(loader).size() == 4);
    const int before = *set.calls;
    Batch batch;
    for (int i = 0; i < 2; ++i)
      CHECK(mentions(message_of([&] { loader.next(batch); }), "at place 2 of epoch 1"));
    CHECK(loader.state() == LoaderState{1, 0});
    CHECK(*set.calls == before);
    loader.set_state({0, 1});
    CHECK(rest(loader) == std::vector<i64>{2, 3});
  }
}

TEST_CASE("loader: epochs of different lengths, samplers that throw or make no sense") {
  const LeakGuard leaks;
  const Counted set{30};
  Loader loader{set, {.batch = 4, .sampler = [](i64 epoch) {
                        if (epoch == 3) throw DataError("no epoch 3");
                        return std::vector<i64>(size_t(epoch == 2 ? 9 : 10));
                      }}};
  rest(loader);
  rest(loader);
  CHECK(message_of([&] { rest(loader); }) ==
        "UsageError: [Loader] the sampler gives 9 samples for epoch 2, it gave 10 for epoch 0: all "
        "epochs need equal lengths");
  CHECK(loader.state() == LoaderState{2, 0});
  loader.set_state({3, 1});
  CHECK(message_of([&] { rest(loader); }) == "DataError: no epoch 3");
  loader.set_state({4, 1});
  CHECK(rest(loader).size() == 6);

  const std::string both = message_of([&] { Loader(set, {.shuffle = true, .sampler = thirds}); });
  CHECK(mentions(both, "UsageError: [Loader] a sampler says the order itself"));
  CHECK(mentions(both, "Try one of the two"));
  CHECK(mentions(
      message_of([&] { Loader(set, {.sampler = [](i64) { return std::vector<i64>(); }}); }),
      "the sampler gives no samples"));
  CHECK_THROWS_AS(Loader(set, {.batch = 21, .drop_last = true, .sampler = thirds}), UsageError);
  CHECK_THROWS_AS(Loader(Counted{0}, {.sampler = thirds}), UsageError);
}

TEST_CASE("weighted sampler: a draw is the sample in whose part of all weights its number lies",
          "[random]") {
  const std::vector<double> weights{0, 3, 0, 0.5, 1, 0};
  const Sampler sampler = weighted_sampler(weights, 1000, 7);
  const PhiloxKey key = philox_key(7, RandomStream::shuffle, 1);
  for (const i64 epoch : {0, 1, 100}) {
    const std::vector<i64> drawn = sampler(epoch);
    REQUIRE(drawn.size() == 1000);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const PhiloxBlock b = philox(key, i, u64(epoch));
      double left = uniform53(b.v[0], b.v[1]) * 4.5;
      i64 at = 0;
      while (left >= weights[size_t(at)]) left -= weights[size_t(at++)];
      CHECK(drawn[i] == at);
    }
  }
  CHECK(sampler(0) != sampler(1));
  CHECK(sampler(3) == weighted_sampler(weights, 1000, 7)(3));
  CHECK(sampler(3) != weighted_sampler(weights, 1000, 8)(3));
  const std::vector<i64> more = weighted_sampler(weights, 2000, 7)(0), some = sampler(0);
  CHECK(std::equal(some.begin(), some.end(), more.begin()));  // a draw depends on its place alone
}

TEST_CASE("weighted sampler: samples come as often as they weigh, weights of any size",
          "[random]") {
  const std::vector<double> parts{1, 2, 0, 5};
  const i64 n = 100'000;
  for (const double scale : {1.0, 1e-320, 3e307}) {
    CAPTURE(scale);
    std::vector<double> weights, counts(4);
    for (double p : parts) weights.push_back(p * scale);
    for (i64 i : weighted_sampler(weights, n)(0)) counts.at(size_t(i)) += 1;
    for (size_t i = 0; i < parts.size(); ++i) {
      const double p = parts[i] / 8;
      CHECK(std::abs(counts[i] - p * double(n)) <= 5 * std::sqrt(p * (1 - p) * double(n)));
    }
  }
  CHECK(weighted_sampler({0.25}, 3)(5) == std::vector<i64>{0, 0, 0});
}

TEST_CASE("weighted sampler: in a loader, with workers and from the middle") {
  const LeakGuard leaks;
  std::vector<double> weights(30);
  for (size_t i = 0; i < weights.size(); i += 2) weights[i] = 1;
  const Sampler sampler = weighted_sampler(weights, 100, 5);
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    Loader loader{Counted{30}, {.batch = 8, .workers = workers, .sampler = sampler}};
    CHECK(loader.size() == 13);
    const std::vector<i64> order = sampler(1);
    CHECK(rest(loader) == sampler(0));
    loader.set_state({1, 10});
    CHECK(rest(loader) == std::vector<i64>(order.begin() + 80, order.end()));
  }
}

TEST_CASE("weighted sampler: weights that say nothing") {
  const auto error = [](const std::vector<double>& weights, i64 samples) {
    return message_of([&] { (void)weighted_sampler(weights, samples); });
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(error({1, -0.5}, 5) ==
        "UsageError: [weighted_sampler] weight 1 is -0.5: weights must be finite and not negative");
  CHECK(mentions(error({1, 2, std::nan("")}, 5), "weight 2 is nan"));
  CHECK(mentions(error({kInf}, 5), "weight 0 is inf"));
  CHECK(mentions(error({0, 0}, 5), "at least one weight must be above 0, got 2 weights"));
  CHECK(mentions(error({}, 5), "got 0 weights"));
  CHECK(mentions(error({1}, 0), "at least 1 sample, got 0"));
  CHECK(error({1}, 1) == "");
}

// --- sequential, random, distributed ---

TEST_CASE("samplers: sequential and random", "[random]") {
  CHECK(sequential_sampler(4)(3) == std::vector<i64>{0, 1, 2, 3});
  const Sampler all = random_sampler(50, {.seed = 4});
  CHECK(all(2) == epoch_order(50, true, 4, 2));
  CHECK(random_sampler(50, {.samples = 20, .seed = 4})(2).size() == 20);
  // More than there are: each at least once and at most twice, another order the second time.
  const std::vector<i64> more = random_sampler(50, {.samples = 80, .seed = 4})(1);
  REQUIRE(more.size() == 80);
  CHECK(std::set<i64>(more.begin(), more.begin() + 50).size() == 50);
  CHECK(std::set<i64>(more.begin() + 50, more.end()).size() == 30);
  CHECK(!std::equal(more.begin(), more.begin() + 30, more.begin() + 50));

  const Sampler drawn = random_sampler(10, {.replacement = true, .samples = 20'000, .seed = 1});
  std::vector<int> counts(10);
  for (const i64 i : drawn(0)) ++counts.at(size_t(i));
  for (const int c : counts) CHECK(std::abs(c - 2000) < 5 * std::sqrt(2000 * 0.9));
  CHECK(drawn(0) == drawn(0));
  CHECK(drawn(0) != drawn(1));
  // Nor do they follow the windows that a set of tokens draws by the same seed: a tenth is alike.
  const TokenWindows windows(zeros({18}, {.dtype = DType::i64}),
                             {.context = 8, .samples = 20'000, .seed = 1});
  const std::vector<i64> order = drawn(0);
  int alike = 0;
  for (i64 i = 0; i < 20'000; ++i) alike += windows.begin(i) == order[size_t(i)];
  CHECK(std::abs(alike - 2000) < 5 * std::sqrt(2000 * 0.9));
  CHECK_THROWS_AS(sequential_sampler(0), UsageError);
  CHECK_THROWS_AS(random_sampler(0), UsageError);
  CHECK_THROWS_AS(random_sampler(5, {.samples = -1}), UsageError);
}

TEST_CASE("samplers: the parts of a distributed one make the dataset, anew each epoch",
          "[random]") {
  for (const i64 n : {1, 7, 12, 100})
    for (const i64 world : {1, 3, 4, 8})
      for (const bool drop : {false, true}) {
        if (drop && n < world) {
          CHECK_THROWS_AS(distributed_sampler(n, {.world = world, .drop_last = true}), UsageError);
          continue;
        }
        CAPTURE(n, world, drop);
        const i64 each = drop ? n / world : (n + world - 1) / world;
        for (i64 epoch = 0; epoch < 3; ++epoch) {
          std::vector<int> times(size_t(n), 0);
          for (i64 rank = 0; rank < world; ++rank) {
            const std::vector<i64> mine = distributed_sampler(
                n, {.rank = rank, .world = world, .seed = 5, .drop_last = drop})(epoch);
            CHECK(i64(mine.size()) == each);
            for (const i64 i : mine) ++times.at(size_t(i));
          }
          i64 missing = 0, again = 0;
          for (const int t : times) missing += t == 0, again += std::max(t - 1, 0);
          CHECK(missing == (drop ? n % world : 0));
          CHECK(again == each * world - n + missing);
        }
      }
  CHECK(distributed_sampler(8, {.rank = 1, .world = 4, .shuffle = false})(1) ==
        std::vector<i64>{1, 5});
  CHECK_THROWS_AS(distributed_sampler(5, {.rank = 4, .world = 4}), UsageError);
  CHECK_THROWS_AS(distributed_sampler(5, {.rank = -1, .world = 4}), UsageError);
  CHECK_THROWS_AS(distributed_sampler(5, {.world = 0}), UsageError);
  CHECK_THROWS_AS(distributed_sampler(0, {}), UsageError);
}

// PyTorch's shuffles by epoch 0 until somebody calls set_epoch() (pytorch/pytorch#31771).
TEST_CASE("trap T21: a distributed sampler shuffles anew each epoch by itself", "[trap]") {
  std::vector<std::vector<i64>> epochs;
  Loader loader{
      TensorDataset(arange(100), arange(100)),
      {.batch = 25, .sampler = distributed_sampler(100, {.rank = 1, .world = 4, .seed = 5})}};
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto& [x, y] : loader) epochs.push_back(y.to_vector<i64>());
  REQUIRE(epochs.size() == 3);
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}
