// Batches that are no data::Batch: arrays of tensors, structs, what collate() makes.
#include <algorithm>
#include <array>
#include <atomic>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/batch.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/philox.h"
#include "warptape/core/progress.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/tests/data/memory_growth.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;
using wt_test::grows_by;

namespace {

using Samples = std::span<const i64>;

TensorDataset numbers(i64 n) { return {arange(n).view({n, 1}), arange(n)}; }
TensorsDataset<3> triples(i64 n) {
  return TensorsDataset{arange(n), arange(n).view({n, 1}), arange(n).to(DType::f32)};
}
std::vector<i64> values(const Tensor& t) { return t.to_vector<i64>(); }

// Sequences of different lengths (sample i has i % 5 + 1 numbers), padded to the longest of a
// batch.
struct Masked {
  Tensor ids, mask, y;
  auto tensors() { return std::array{&ids, &mask, &y}; }
};
struct Pad {
  std::shared_ptr<std::atomic<i64>> fail_at = std::make_shared<std::atomic<i64>>(-1);

  Masked operator()(const Batch& b) const {
    const std::vector<i64> samples = values(b.y);
    i64 longest = 0;
    for (i64 s : samples) {
      if (s == *fail_at) throw DataError(str("sample ", s, " cannot be padded"));
      longest = std::max(longest, s % 5 + 1);
    }
    std::vector<i64> ids, mask;
    for (i64 s : samples)
      for (i64 k = 0; k < longest; ++k) {
        ids.push_back(k <= s % 5 ? s : -1);
        mask.push_back(k <= s % 5);
      }
    const Shape shape{i64(samples.size()), longest};
    return {tensor(ids).reshape(shape), tensor(mask).reshape(shape), b.y};
  }
};

// The y of all that is left of the epoch; the batches are checked on the way.
std::vector<i64> rest(auto& loader) {
  std::vector<i64> seen;
  for (auto& [ids, mask, y] : loader) {
    const std::vector<i64> samples = values(y);
    const auto longest = std::max_element(samples.begin(), samples.end(),
                                          [](i64 a, i64 b) { return a % 5 < b % 5; });
    CHECK(ids.shape() == Shape{y.size(0), *longest % 5 + 1});
    const std::vector<i64> id = values(ids), m = values(mask);
    for (size_t i = 0; i < id.size(); ++i)
      CHECK(id[i] == (m[i] ? samples[i / size_t(ids.size(1))] : -1));
    seen.insert(seen.end(), samples.begin(), samples.end());
  }
  return seen;
}

}  // namespace

TEST_CASE("tensors dataset: rows of any number of tensors, in arrays") {
  const LeakGuard leaks;
  const TensorsDataset set = triples(10);
  static_assert(std::is_same_v<decltype(set), const TensorsDataset<3>>);
  CHECK(set.size() == 10);
  const i64 pick[] = {7, 0, 7};
  const auto [x, y, w] = set.batch(pick);
  CHECK(values(x) == std::vector<i64>{7, 0, 7});
  CHECK(y.shape() == Shape{3, 1});
  CHECK(values(y) == values(x));
  CHECK(w.to_vector<float>() == std::vector<float>{7, 0, 7});
  const i64 outside[] = {3, 10};
  CHECK(message_of([&] { set.batch(outside); }) ==
        "IndexError: [TensorsDataset] sample 10 is outside [0, 10)");
  const TensorsDataset one{arange(4)};
  CHECK(values(one.batch(std::array<i64, 1>{2})[0]) == std::vector<i64>{2});
  // Rows are those of the logical tensor, however it lies in memory.
  const TensorsDataset turned{arange(6).view({2, 3}).t()};
  CHECK(values(turned.batch(std::array<i64, 1>{1})[0]) == std::vector<i64>{1, 4});
}

TEST_CASE("tensors dataset: tensors that do not fit together are refused") {
  const std::string lengths = message_of([] {
    TensorsDataset(arange(3), zeros({3, 2}), arange(4));
  });
  CHECK(mentions(lengths, "ShapeError: [TensorsDataset] all tensors need equal first sizes"));
  CHECK(mentions(lengths, "tensor 0 [3] i64 cpu"));
  CHECK(mentions(lengths, "tensor 2 [4] i64 cpu"));
  CHECK_THROWS_AS(TensorsDataset(tensor(1.0), arange(1)), ShapeError);
  CHECK_THROWS_AS(TensorsDataset(arange(1), tensor(1.0)), ShapeError);
}

TEST_CASE("loader: arrays of tensors, in one order with any number of workers") {
  const LeakGuard leaks;
  std::vector<i64> first;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    std::vector<i64> seen;
    Loader loader{triples(50), {.batch = 8, .shuffle = true, .seed = 3, .workers = workers}};
    static_assert(std::is_same_v<decltype(*loader.begin()), std::array<Tensor, 3>&>);
    for (auto& [x, y, w] : loader) {
      for (i64 v : values(x)) seen.push_back(v);
      CHECK(values(y) == values(x));
      CHECK(values(w.to(DType::i64)) == values(x));
    }
    CHECK(seen.size() == 50);
    if (workers == 0) first = seen;
    CHECK(seen == first);
  }
}

TEST_CASE("loader: a struct from collate, padded by batch, goes on in the middle of an epoch") {
  const LeakGuard leaks;
  std::vector<i64> alone;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const LoaderOptions o{.batch = 8, .shuffle = true, .seed = 1, .workers = workers};
    Loader a{collate(numbers(100), Pad()), o};
    const std::vector<i64> all = rest(a);
    CHECK(all.size() == 100);
    if (workers == 0) alone = all;
    CHECK(all == alone);
    Masked batch;
    for (int i = 0; i < 3; ++i) REQUIRE(a.next(batch));
    CHECK(a.state() == LoaderState{1, 3, 100});
    Loader b{collate(numbers(100), Pad()), o};
    REQUIRE(b.next(batch));  // it was under way elsewhere
    b.set_state(a.state());
    const std::vector<i64> left = rest(a);
    CHECK(left.size() == 76);
    CHECK(rest(b) == left);
  }
}

TEST_CASE("loader: what collate's function throws reaches the caller, who may go on") {
  const LeakGuard leaks;
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const Pad pad;
    *pad.fail_at = 17;
    Loader loader{collate(numbers(40), pad), {.batch = 5, .workers = workers}};
    Masked batch;
    for (int i = 0; i < 3; ++i) REQUIRE(loader.next(batch));
    for (int i = 0; i < 2; ++i)
      CHECK(message_of([&] {
              loader.next(batch);
            }).find("DataError: sample 17 cannot be padded\n  in batch 3 of epoch 0, dataset ") ==
            0);
    CHECK(loader.state() == LoaderState{0, 3, 40});
    *pad.fail_at = -1;
    CHECK(rest(loader).size() == 25);
  }
}

TEST_CASE("collate: f may ask for the samples and the epoch") {
  const LeakGuard leaks;
  // What an augmentation does: noise by (epoch, sample), whoever makes the batch.
  const auto noise = [](const Batch& b, Samples samples, i64 epoch) {
    std::vector<i64> v;
    for (i64 s : samples) v.push_back(philox(PhiloxKey{1, 2}, u64(s), u64(epoch)).v[0]);
    return Batch{tensor(v), b.y - tensor(std::vector<i64>(samples.begin(), samples.end()))};
  };
  std::vector<i64> first, second;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    Loader loader{collate(numbers(20), noise), {.batch = 6, .workers = workers}};
    std::vector<i64> epochs[2];
    for (auto& epoch : epochs)
      for (auto& [x, y] : loader) {
        for (i64 v : values(x)) epoch.push_back(v);
        CHECK(values(y) == std::vector<i64>(size_t(y.size(0))));
      }
    if (workers == 0) first = epochs[0], second = epochs[1];
    CHECK(first != second);
    CHECK(epochs[0] == first);
    CHECK(epochs[1] == second);
  }
  const auto indexed = collate(numbers(5), [](Batch b, Samples s) {
    return std::array{std::move(b.x), tensor(std::vector<i64>(s.begin(), s.end()))};
  });
  const i64 pick[] = {3, 1};
  CHECK(values(indexed.batch(pick)[1]) == std::vector<i64>{3, 1});
  CHECK(values(indexed.batch(pick)[0]) == std::vector<i64>{3, 1});
}

TEST_CASE("the epoch reaches a dataset inside others, and only one that asks for it") {
  const auto of_epoch = collate(numbers(10), [](const Batch& b, Samples, i64 epoch) {
    return Batch{b.x, b.y + epoch * 100};
  });
  const i64 pick[] = {1};
  const auto y = [&](const auto& set) { return values(data::detail::batch_of(set, pick, 2).y); };
  CHECK(y(of_epoch) == std::vector<i64>{201});
  CHECK(values(of_epoch.batch(pick).y) == std::vector<i64>{1});
  CHECK(y(Subset{of_epoch, {5, 6}}) == std::vector<i64>{206});
  CHECK(y(AnyDataset{of_epoch}) == std::vector<i64>{201});
  CHECK(y(Concat{of_epoch, numbers(1)}) == std::vector<i64>{201});
  CHECK(y(collate(of_epoch, [](Batch b) { return b; })) == std::vector<i64>{201});
  struct OwnOptions {
    i64 size() const { return 3; }
    Batch batch(Samples s, bool negative = false) const {
      const Tensor v = tensor(std::vector<i64>(s.begin(), s.end()));
      return {v, negative ? v * -1 : v};
    }
  };
  CHECK(y(OwnOptions{}) == std::vector<i64>{1});
  // Other batches pass through a subset as they are.
  const Subset part{triples(10), {9, 8}};
  CHECK(values(part.batch(pick)[0]) == std::vector<i64>{8});
}

TEST_CASE("loader: memory of batches of any type goes back to the workers that make them") {
  // Three new tensors, views of one new tensor beside what the dataset keeps, one tensor twice and
  // one that is undefined.
  struct Rows {
    Tensor kept = arange(4096);
    i64 size() const { return 256; }
    Batch batch(Samples i) const { return {kept, kept.narrow(0, i[0], 1)}; }
  };
  const auto three = [](const Batch&) {
    return std::array{ones({8, 128}), ones({8, 64}), ones({8, 128})};
  };
  const auto views = [](const Batch& b) {
    const Tensor t = ones({4, 512});
    return Masked{t.narrow(0, 0, 1), t.narrow(0, 1, 2), b.x};
  };
  const auto twice = [](const Batch&) {
    const Tensor t = ones({8, 128});
    return Masked{t, Tensor(), t};
  };
  const auto single = [](const Batch&) { return ones({8, 256}); };
  const auto list = [](const Batch&) { return std::vector<Tensor>(5, ones({8, 128})); };
  for (const int workers : {1, 3}) {
    CAPTURE(workers);
    const LoaderOptions o{.batch = 8, .workers = workers};
    // 500 batches have 2 MB and more.
    CHECK(grows_by(Loader{collate(Rows{}, three), o}) < 400'000);
    CHECK(grows_by(Loader{collate(Rows{}, views), o}) < 400'000);
    CHECK(grows_by(Loader{collate(Rows{}, twice), o}) < 400'000);
    CHECK(grows_by(Loader{collate(Rows{}, single), o}) < 400'000);
    CHECK(grows_by(Loader{collate(Rows{}, list), o}) < 400'000);
    // One an epoch, left in the middle.
    const auto after = [&](int loaders) {
      for (int i = 0; i < loaders; ++i) {
        Loader loader{collate(Rows{}, three), o};
        std::array<Tensor, 3> b;
        REQUIRE(loader.next(b));
      }
      return memory::stats(Device::cpu()).reserved;
    };
    const i64 before = after(10);
    CHECK(after(100) - before < 400'000);
  }
}

TEST_CASE("loader: progress counts batches of any type") {
  std::string out;
  const ProgressOptions options{.style = ProgressStyle::bar,
                                .columns = 60,
                                .sink = [&](std::string_view t) { out += t; },
                                .clock = [] { return 0.0; }};
  i64 seen = 0;
  for (auto& [x, y, w] : wt::progress(Loader{triples(20), {.batch = 4}}, options))
    seen += w.size(0);
  CHECK(seen == 20);
  CHECK(mentions(out, " 5/5 "));
}

TEST_CASE("batch types: what tells its tensors, and what only seems to") {
  using wt::detail::TellsTensors;
  struct Copies {  // the list owns copies: whoever moves them moves nothing
    Tensor x;
    std::array<Tensor, 1> tensors() { return {x}; }
  };
  struct View {
    std::vector<Tensor> parts;
    std::span<Tensor> tensors() { return parts; }
  };
  struct Reference {
    std::vector<Tensor> parts;
    std::vector<Tensor>& tensors() { return parts; }
  };
  static_assert(TellsTensors<Batch> && TellsTensors<Masked> && TellsTensors<View>);
  static_assert(TellsTensors<Tensor> && TellsTensors<std::array<Tensor, 3>>);
  static_assert(TellsTensors<std::vector<Tensor>> && TellsTensors<Reference>);
  static_assert(!TellsTensors<Copies> && !TellsTensors<std::pair<Tensor, Tensor>>);
  static_assert(!TellsTensors<std::vector<i64>> && !TellsTensors<const std::vector<Tensor>>);
  View view{{arange(2), arange(3)}};
  i64 n = 0;
  wt::detail::for_each_tensor(view, [&](Tensor& t) { n += t.numel(); });
  CHECK(n == 5);
}
