// Datasets that change while a loader reads them: between epochs they may, within one they are
// refused, with any number of workers.
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

using Indices = std::span<const i64>;

Tensor numbers_of(Indices indices) {
  return tensor(std::vector<i64>(indices.begin(), indices.end()));
}

// As many samples as somebody else says: a file that grows, a buffer of a game that is cut.
struct Shared {
  std::shared_ptr<std::atomic<i64>> n;
  explicit Shared(i64 samples) : n(std::make_shared<std::atomic<i64>>(samples)) {}
  i64 size() const { return *n; }
};
struct Pairs : Shared {
  using Shared::Shared;
  Batch batch(Indices i) const { return {numbers_of(i), numbers_of(i)}; }
};
struct Triples : Shared {
  using Shared::Shared;
  std::array<Tensor, 3> batch(Indices i) const {
    return {numbers_of(i), numbers_of(i), numbers_of(i)};
  }
};
struct Named {
  Tensor x;
  auto tensors() { return std::array{&x}; }
};
struct Structs : Shared {
  using Shared::Shared;
  Named batch(Indices i) const { return {numbers_of(i)}; }
};

const Tensor& first_of(const Batch& b) { return b.x; }
const Tensor& first_of(const std::array<Tensor, 3>& b) { return b[0]; }
const Tensor& first_of(const Named& b) { return b.x; }

// What is left of the epoch.
std::vector<i64> rest(auto& loader) {
  std::vector<i64> seen;
  for (auto& batch : loader)
    for (i64 v : first_of(batch).template to_vector<i64>()) seen.push_back(v);
  return seen;
}

LoaderOptions options(int workers) {
  return {.batch = 5, .shuffle = true, .seed = 3, .workers = workers};
}

constexpr auto kShrunk =
    "UsageError: [Loader] the dataset has 12 samples, it had 24 when epoch 0 began: its size may "
    "change between epochs only\n  Try set_state({.epoch = 1}), which begins the next one";

}  // namespace

TEMPLATE_TEST_CASE("loader: each epoch has the samples that the dataset has when it begins", "",
                   Pairs, Triples, Structs) {
  const LeakGuard leaks;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    const TestType set(24);
    Loader loader{set, options(workers)};
    i64 epoch = 0;
    for (const i64 n : {24, 12, 40, 12}) {
      *set.n = n;
      CHECK(loader.size() == (n + 4) / 5);
      CHECK(rest(loader) == epoch_order(n, true, 3, epoch++));
    }
    *set.n = 24;  // after the constructor, before the first batch
    Loader late{set, options(workers)};
    *set.n = 12;
    CHECK(rest(late) == epoch_order(12, true, 3, 0));
  }
}

TEMPLATE_TEST_CASE("loader: another size within an epoch is refused; back again, it goes on", "",
                   Pairs, Triples, Structs) {
  const LeakGuard leaks;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    const TestType set(24);
    Loader loader{set, options(workers)};
    typename Loader<TestType>::Item batch;
    for (int i = 0; i < 2; ++i) REQUIRE(loader.next(batch));
    *set.n = 12;
    for (int i = 0; i < 2; ++i) CHECK(message_of([&] { loader.next(batch); }) == kShrunk);
    CHECK(loader.state() == LoaderState{0, 2, 24});
    CHECK(loader.size() == 5);
    *set.n = 100;
    CHECK(mentions(message_of([&] { loader.next(batch); }), "has 100 samples, it had 24"));
    *set.n = 24;
    const std::vector<i64> order = epoch_order(24, true, 3, 0);
    CHECK(rest(loader) == std::vector<i64>(order.begin() + 10, order.end()));

    REQUIRE(loader.next(batch));
    *set.n = 12;
    CHECK_THROWS_AS(loader.next(batch), UsageError);
    loader.set_state({.epoch = 2});
    CHECK(rest(loader) == epoch_order(12, true, 3, 2));
    *set.n = 10;
    for (int i = 0; i < 2; ++i) REQUIRE(loader.next(batch));
    *set.n = 3;  // all were given
    CHECK(rest(loader).empty());
    CHECK(rest(loader) == epoch_order(3, true, 3, 4));
  }
}

TEST_CASE("loader: a position in an epoch over a dataset of another size is refused") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    Loader a{Pairs(24), options(workers)};
    Batch batch;
    for (int i = 0; i < 4; ++i) REQUIRE(a.next(batch));
    CHECK(a.state() == LoaderState{0, 4, 24});
    const Pairs smaller(12);
    Loader b{smaller, options(workers)};
    b.set_state(a.state());
    CHECK(message_of([&] { b.next(batch); }) == kShrunk);
    *smaller.n = 24;
    CHECK(rest(b) == rest(a));
    // Positions that say nothing of the size are those of the dataset as it is.
    b.set_state({0, 2});
    CHECK(b.state() == LoaderState{0, 2, 24});
    *smaller.n = 12;
    CHECK(message_of([&] { b.next(batch); }) == kShrunk);
    b.set_state({0, 2});
    CHECK(rest(b).size() == 2);
    CHECK_THROWS_AS(b.set_state({0, 4}), UsageError);
    CHECK_THROWS_AS(b.set_state({0, 5, 20}), UsageError);
    CHECK_THROWS_AS(b.set_state({0, 1, -1}), UsageError);
    CHECK(b.state() == LoaderState{1, 0});
    b.set_state({7, 5, 24});  // the end of an epoch: what it had matters no more
    CHECK_FALSE(b.next(batch));
    CHECK(rest(b) == epoch_order(12, true, 3, 8));
  }
}

TEST_CASE("loader: a dataset that has become empty, or too small for one batch") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const Pairs set(24);
    LoaderOptions o = options(workers);
    o.drop_last = true;
    Loader loader{set, o};
    CHECK(rest(loader).size() == 20);
    Batch batch;
    const auto error = [&](i64 n) {
      *set.n = n;
      return message_of([&] { loader.next(batch); });
    };
    CHECK(error(0) == "UsageError: [Loader] the dataset is empty");
    CHECK(error(-12) == "UsageError: [Loader] the dataset says it has -12 samples");
    CHECK(mentions(error(4), "a batch of 5 is larger than the data (4 samples)"));
    CHECK(loader.state() == LoaderState{1, 0});
    *set.n = 11;
    CHECK(rest(loader).size() == 10);
  }
  Loader all{Pairs(24), {.batch = std::numeric_limits<i64>::max()}};
  CHECK(all.size() == 1);
  CHECK(rest(all).size() == 24);
}

TEST_CASE("loader: samplers of a dataset that changes") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const Pairs set(24);
    Loader loader{set, {.batch = 2, .workers = workers, .sampler = [](i64 epoch) {
                          return std::vector<i64>{0, 20 - 10 * (epoch / 2), 3, 1};
                        }}};
    CHECK(rest(loader).size() == 4);
    *set.n = 12;
    Batch batch;
    CHECK(message_of([&] { loader.next(batch); }) ==
          "IndexError: [Loader] the sampler gives sample 20 at place 1 of epoch 1, outside [0, "
          "12)");
    loader.set_state({.epoch = 2});
    CHECK(rest(loader) == std::vector<i64>{0, 10, 3, 1});
    REQUIRE(loader.next(batch));
    *set.n = 11;  // its samples are all there, but which would an epoch of 11 have had?
    CHECK_THROWS_AS(loader.next(batch), UsageError);
  }
}

namespace {

// `write` changes the samples of `set`, whose numbers are then 100 more.
template <class D>
void check_writes(const D& set, const std::function<void()>& write) {
  const std::vector<i64> order = epoch_order(24, true, 3, 0);
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    Loader loader{set, options(workers)};
    typename Loader<D>::Item batch;
    REQUIRE(loader.next(batch));
    const std::vector<i64> before = first_of(batch).template to_vector<i64>();
    write();
    CHECK(first_of(batch).template to_vector<i64>() == before);
    for (int i = 0; i < 2; ++i)
      CHECK(mentions(message_of([&] { loader.next(batch); }),
                     "UsageError: [Loader] the dataset's tensors were written to after the first "
                     "batch of epoch 0"));
    CHECK(loader.state() == LoaderState{0, 1, 24});
    loader.set_state({});
    const i64 more = before[0] - order[0] + 100;
    std::vector<i64> all = order;
    for (i64& v : all) v += more;
    CHECK(rest(loader) == all);
    write();  // between epochs
    all = epoch_order(24, true, 3, 1);
    for (i64& v : all) v += more + 100;
    CHECK(rest(loader) == all);
  }
}

}  // namespace

TEST_CASE("loader: tensors of the dataset are written to between epochs, not within one") {
  const LeakGuard leaks;
  Tensor x = arange(24);
  const auto write = [&] { x.add_(tensor(100)); };
  const auto fresh = [&] {
    x = arange(24);
    return TensorDataset{x, x};
  };
  check_writes(fresh(), write);
  x = arange(24);
  check_writes(TensorsDataset{x, arange(24), x}, write);
  std::vector<i64> identity(24);
  for (size_t i = 0; i < 24; ++i) identity[i] = i64(i);
  check_writes(Subset{fresh(), identity}, write);
  check_writes(AnyDataset{fresh()}, write);
  check_writes(collate(fresh(), [](const Batch& b) { return Named{b.x}; }), write);
  x = arange(12);
  Tensor other = arange(12) + 12;
  check_writes(Concat{TensorDataset{x, x}, TensorDataset{other, other}}, [&] {
    x.add_(tensor(100));
    other.add_(tensor(100));
  });
  // A position in an epoch of which this loader has given nothing.
  Loader loader{fresh(), options(0)};
  write();
  loader.set_state({0, 4});
  CHECK(rest(loader).size() == 4);
}

TEST_CASE("combined datasets: parts that change") {
  const Pairs a(4), b(6);
  const Concat both{a, b};
  CHECK(both.size() == 10);
  const i64 fifth[] = {4}, last[] = {9};
  CHECK(both.batch(fifth).x.to_vector<i64>() == std::vector<i64>{0});
  *a.n = 5;
  CHECK(both.size() == 11);
  CHECK(both.batch(fifth).x.to_vector<i64>() == std::vector<i64>{4});
  *b.n = 2;
  CHECK_THROWS_AS(both.batch(last), IndexError);
  const Pairs c(8);
  const Subset part{c, {7, 0}};
  *c.n = 7;
  const i64 zero[] = {0}, one[] = {1};
  CHECK(message_of([&] { part.batch(zero); }) == "IndexError: [Subset] sample 7 is outside [0, 7)");
  CHECK(part.batch(one).x.to_vector<i64>() == std::vector<i64>{0});
}

// --- the mode of workers ---

namespace {

// What its thread's mode says, and random numbers.
struct Modes {
  i64 size() const { return 8; }
  Batch batch(Indices) const {
    return {rand({4}), tensor({i64(mode.determinism == Determinism::strict), i64(mode.grad)})};
  }
};

std::vector<float> draws_with_seed(u64 seed) {
  const Generator before = generator();
  manual_seed(seed);
  std::vector<float> all;
  {
    Loader loader{Modes{}, {.batch = 2, .workers = 1}};
    for (auto& [x, y] : loader)
      for (float v : x.to_vector<float>()) all.push_back(v);
  }
  generator() = before;
  return all;
}

}  // namespace

TEST_CASE("loader: workers have a copy of the mode, and numbers that follow the seed", "[random]") {
  const LeakGuard leaks;
  CHECK(draws_with_seed(1) == draws_with_seed(1));
  CHECK(draws_with_seed(1) != draws_with_seed(2));
  const DeterminismScope strict(Determinism::strict);
  Loader loader{Modes{}, {.batch = 2, .workers = 2}};
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(batch.y.to_vector<i64>() == std::vector<i64>{1, 0});
}

TEST_CASE("loader: what workers make under an InferenceMode may be trained on later") {
  std::optional<Loader<Modes>> loader;
  {
    const InferenceMode inference;
    loader.emplace(Modes{}, LoaderOptions{.batch = 2, .workers = 2});
  }
  const Tensor w = ones({4}).set_requires_grad();
  for (auto& [x, y] : *loader) CHECK_NOTHROW((w * x).sum().backward());
}
