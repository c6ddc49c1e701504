// What a Loader does by itself: stacking the samples of get(), choosing workers, saying where an
// error comes from, keeping time; and the cache in memory.
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "warptape/core/factories.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/data/cache.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/tests/data/loaders.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

struct Squares {
  i64 size() const { return 10; }
  std::pair<Tensor, i64> get(i64 i) const { return {full({2}, double(i * i)), i % 3}; }
};
struct Flags {
  i64 size() const { return 5; }
  bool get(i64 i) const { return i % 2 == 0; }
};
struct OfEpoch {
  i64 size() const { return 4; }
  std::array<Tensor, 2> get(i64 i, i64 epoch) const {
    return {full({}, i64(100 * epoch + i)), full({0, 3}, 1.0)};
  }
};
struct Named {
  Tensor ids, mask;
  std::string first;
  auto tensors() { return std::array{&ids, &mask}; }
};
struct Lines {
  i64 size() const { return 4; }
  Named get(i64 i) const { return {arange(3), full({3}, i > 0), str("line ", i)}; }
};
struct Ragged {
  bool dtypes = false;
  i64 size() const { return 4; }
  Tensor get(i64 i) const {
    return dtypes ? full({2}, 1, {.dtype = i < 2 ? f32 : f64}) : zeros({i + 1});
  }
};
struct Padded : Ragged {
  Tensor collate(std::vector<Tensor> v) const { return full({i64(v.size())}, v.back().size(0)); }
};

// What a user's own exception type keeps.
struct Odd : DataError {
  using DataError::DataError;
  int code = 7;
};
struct Failing {
  int kind = 0;
  i64 size() const { return 30; }
  Batch batch(std::span<const i64> samples) const {
    if (samples[0] < 10) return {zeros({10}), zeros({10})};
    if (kind == 0) throw DataError("file x is torn\n  Try another");
    if (kind == 1) throw std::runtime_error("no disk");
    if (kind == 2) throw Odd("odd");
    throw 5;
  }
};

// Counts what it is asked for.
struct Counted {
  i64 n = 12;
  std::shared_ptr<std::atomic<i64>> calls = std::make_shared<std::atomic<i64>>(0),
                                    samples = std::make_shared<std::atomic<i64>>(0),
                                    change = std::make_shared<std::atomic<i64>>(0);
  i64 size() const { return n; }
  u64 version() const { return u64(change->load()); }
  Batch batch(std::span<const i64> s) const {
    ++*calls;
    *samples += i64(s.size());
    std::vector<i64> v;
    for (const i64 i : s) v.push_back(i + 1000 * change->load());
    const Tensor t = tensor(v);
    return {t.to(f32).reshape({i64(v.size()), 1}), t};
  }
};

}  // namespace

TEST_CASE("loader: samples of get() are stacked") {
  const LeakGuard leaks;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    Loader squares{Squares{}, {.batch = 4, .workers = workers}};
    Batch b;
    REQUIRE(squares.next(b));
    CHECK(b.x.to_vector<float>() == std::vector<float>{0, 0, 1, 1, 4, 4, 9, 9});
    CHECK(b.x.shape() == Shape{4, 2});
    CHECK(b.y.to_vector<i64>() == std::vector<i64>{0, 1, 2, 0});
    REQUIRE(squares.next(b));
    REQUIRE(squares.next(b));
    CHECK(b.x.shape() == Shape{2, 2});  // ragged tail

    Loader flags{Flags{}, {.batch = 5, .workers = workers}};
    for (Tensor& t : flags) CHECK(t.dtype() == DType::boolean);

    Loader epochs{OfEpoch{}, {.batch = 4, .workers = workers}};
    for (i64 e = 0; e < 2; ++e)
      for (auto& [at, nothing] : epochs) {
        CHECK(at.to_vector<i64>()[3] == 100 * e + 3);
        CHECK(nothing.shape() == Shape{4, 0, 3});
      }

    Loader lines{Lines{}, {.batch = 3, .workers = workers}};
    Named n;
    REQUIRE(lines.next(n));
    CHECK(n.ids.shape() == Shape{3, 3});
    CHECK(n.mask.dtype() == DType::boolean);
    CHECK(n.first == "line 0");
    REQUIRE(lines.next(n));
    CHECK(n.first == "line 3");

    Loader padded{Padded{}, {.batch = 3, .workers = workers}};
    for (Tensor& t : padded) CHECK(t.size(0) <= 3);
  }
}

TEST_CASE("loader: samples that cannot be stacked") {
  Loader shapes{Ragged{}, {.batch = 2}}, dtypes{Ragged{.dtypes = true}, {.batch = 3}};
  Tensor t;
  try {
    shapes.next(t);
    FAIL("stacked");
  } catch (const ShapeError& e) {
    const std::string text = e.what();
    CHECK(text.find("ShapeError: [Loader] samples of one batch have different shapes\n") == 0);
    CHECK(text.find("Ragged") != text.npos);
  }
  CHECK_THROWS_AS(dtypes.next(t), DtypeError);
  CHECK(shapes.state() == LoaderState{});
  // Parts that not every sample has.
  struct Uneven {
    struct Sample {
      std::vector<Tensor> parts;
      std::vector<Tensor*> tensors() {
        std::vector<Tensor*> all;
        for (Tensor& p : parts) all.push_back(&p);
        return all;
      }
    };
    i64 first = 1;
    i64 size() const { return 2; }
    Sample get(i64 i) const { return {std::vector<Tensor>(size_t(i == 0 ? first : 2), ones({2}))}; }
  };
  for (const i64 first : {1, 3}) {
    Uneven::Sample s;
    CHECK_THROWS_AS((Loader{Uneven{first}, {.batch = 2}}.next(s)), UsageError);
  }
  // By hand, below what takes batches.
  Loader part{Subset(Stacked(Squares{}), {3, 1}), {.batch = 2}};
  CHECK(wt_test::targets_of(part) == std::vector<i64>{0, 1});
  CHECK_THROWS_AS(Stacked(Squares{}).batch(std::vector<i64>{10}), IndexError);
  CHECK_THROWS_AS(Stacked(Squares{}).batch({}), UsageError);
}

// PyTorch's advice is 1 to 2 workers a core, which makes datasets in memory slower
// (pytorch/pytorch#181501).
TEST_CASE("trap T25: workers = kAuto takes none for data in memory and says why", "[trap]") {
  const TensorDataset tensors(arange(8), arange(8));
  const LoaderOptions o{.batch = 2, .workers = kAuto};
  Loader in_memory{tensors, o};
  CHECK(in_memory.workers() == 0);
  CHECK(in_memory.why_workers().find("0: the dataset is in memory") == 0);
  CHECK(wt_test::targets_of(in_memory) == std::vector<i64>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(Loader(AnyDataset(Subset(tensors, {1, 2})), o).workers() == 0);
  CHECK(Loader(Concat(tensors, tensors), o).workers() == 0);

  const int cores = wt::detail::processors();
  Loader unknown{Counted{}, {.batch = 1, .workers = kAuto}};
  CHECK(unknown.workers() == std::min(cores, 12));
  CHECK(unknown.why_workers().find("does not say that it is in memory") != std::string::npos);
  CHECK(Loader(Counted{}, {.batch = 12, .workers = kAuto}).workers() == 1);  // one batch
  CHECK(Loader(Concat(tensors, Counted{}), {.batch = 1, .workers = kAuto}).workers() > 0);

  CHECK(Loader(Counted{}).workers() == 0);  // the default
  CHECK(Loader(Counted{}, {.workers = 3}).workers() == 3);
  CHECK_THROWS_AS(Loader(Counted{}, {.workers = -2}), UsageError);
}

TEST_CASE("loader: an error says where it comes from and keeps its type") {
  const LeakGuard leaks;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const auto failing = [&](int kind) {
      return Loader{Failing{kind}, {.batch = 10, .workers = workers}};
    };
    Batch b;
    auto data = failing(0);
    REQUIRE(data.next(b));
    for (int again = 0; again < 2; ++again) {
      std::string text;
      try {
        data.next(b);
      } catch (const DataError& e) {
        text = e.what();
      }
      text = wt_test::without_worker(text, workers);
      CHECK(text ==
            "DataError: file x is torn\n  in batch 1 of epoch 0, dataset (anonymous "
            "namespace)::Failing, samples 10, 11, 12, 13, 14, 15, 16, 17, ... (10 in all)\n  Try "
            "another");
    }
    CHECK(data.state().batch == 1);
    auto standard = failing(1);
    REQUIRE(standard.next(b));
    std::string text;
    try {
      standard.next(b);
    } catch (const std::runtime_error& e) {
      text = e.what();
    }
    CHECK(text.find("no disk\n  in batch 1 of epoch 0") == 0);
    auto odd = failing(2);  // a type that only its author can copy
    REQUIRE(odd.next(b));
    CHECK_THROWS_AS(odd.next(b), Odd);
    auto number = failing(3);
    REQUIRE(number.next(b));
    CHECK_THROWS_AS(number.next(b), int);
  }
}

TEST_CASE("loader: its statistics say where the time goes", "[wall]") {
  struct Slow {
    i64 size() const { return 8; }
    Tensor get(i64) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return zeros({3});
    }
  };
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    Loader loader{Slow{}, {.batch = 2, .workers = workers}};
    for (Tensor& t : loader) (void)t;
    const LoaderStats s = loader.stats();
    CHECK(s.batches == 4);
    CHECK(s.bytes_to_device == 0);
    CHECK(s.dataset >= 0.016);
    CHECK(s.collate > 0);
    CHECK(s.collate < s.dataset);
    CHECK(s.next > 0.01);
    CHECK(s.next <= s.elapsed);
    CHECK((s.worker_wait > 0) == (workers > 0));
    CHECK(std::string(s.dearest()) == "dataset");
    CHECK(s.stall_share() > 0);
    CHECK(s.stall_share() <= 1);
    CHECK(s.text().find("4 batches in ") == 0);
    loader.reset_stats();
    CHECK(loader.stats().batches == 0);
    CHECK(loader.stats().next == 0);
  }
}

TEST_CASE("loader: it ends promptly while its workers wait for room", "[wall]") {
  const LeakGuard leaks;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    Loader loader{Counted{1000}, {.batch = 1, .workers = 4, .prefetch = 1}};
    Batch b;
    REQUIRE(loader.next(b));
    if (i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the ring is full
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

// --- cache_in_ram ---

TEST_CASE("cache_in_ram: the second epoch does not call the dataset") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const Counted counted;
    const LoaderOptions o{.batch = 5, .shuffle = true, .seed = 3, .workers = workers};
    Loader plain{Counted{}, o};
    Loader cached{cache_in_ram(counted), o};
    CHECK(wt_test::targets_of(cached) == wt_test::targets_of(plain));
    CHECK(*counted.samples == 12);
    const i64 calls = *counted.calls;
    for (int epoch = 1; epoch < 3; ++epoch)
      CHECK(wt_test::targets_of(cached) == wt_test::targets_of(plain));
    CHECK(*counted.calls == calls);
    CHECK(cached.dataset().cached() == 12);
    CHECK(cached.dataset().cached_bytes() == 12 * (4 + 8));

    ++*counted.change;  // between epochs: everything is read anew
    const std::vector<i64> changed = wt_test::targets_of(cached);
    CHECK(*counted.samples == 24);
    CHECK(*std::min_element(changed.begin(), changed.end()) == 1000);
  }
}

TEST_CASE("cache_in_ram: a bound on its memory") {
  const Counted counted;
  Loader loader{cache_in_ram(counted, {.bytes = 5 * 12 + 11}), {.batch = 4}};
  const std::vector<i64> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(wt_test::targets_of(loader) == all);
  CHECK(loader.dataset().cached() == 5);
  CHECK(loader.dataset().cached_bytes() == 60);
  CHECK(*counted.samples == 12 + 7 + 7);  // 5 .. 11 are read anew
  const Counted none;
  Loader nothing{cache_in_ram(none, {.bytes = 0}), {.batch = 4}};
  for (int epoch = 0; epoch < 2; ++epoch) CHECK(wt_test::targets_of(nothing) == all);
  CHECK(*none.samples == 24);
  CHECK_THROWS_AS(cache_in_ram(Counted{}, {.bytes = -1}), UsageError);
}

TEST_CASE("cache_in_ram: samples twice in a batch, unlike rows, wrong indices") {
  const Counted counted;
  const auto cached = cache_in_ram(counted);
  const std::vector<i64> twice{3, 1, 3};
  for (int again = 0; again < 2; ++again) CHECK(cached.batch(twice).y.to_vector<i64>() == twice);
  CHECK(*counted.samples == 2);
  const std::vector<i64> mixed{1, 2, 3, 2};
  CHECK(cached.batch(mixed).y.to_vector<i64>() == mixed);
  CHECK(*counted.samples == 3);
  CHECK_THROWS_AS(cached.batch(std::vector<i64>{12}), IndexError);
  CHECK_THROWS_AS(cached.batch(std::vector<i64>{-1}), IndexError);

  const auto ragged = cache_in_ram(Ragged{});
  for (const i64 i : {0, 1}) (void)ragged.batch(std::vector<i64>{i});
  CHECK_THROWS_AS(ragged.batch(std::vector<i64>{0, 1}), ShapeError);
  CHECK(ragged.cached() == 2);
}
