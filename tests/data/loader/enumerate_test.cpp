// Batches with their numbers, and the progress line of a loader.
#include "warptape/data/enumerate.h"

#include "warptape/core/factories.h"
#include "warptape/core/progress.h"
#include "warptape/data/loader.h"
#include "warptape/data/resident_loader.h"
#include "warptape/data/stream_loader.h"
#include "warptape/data/stream_sources.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::data;

namespace {

TensorDataset rows(i64 n) {
  const Tensor y = arange(n, {.dtype = DType::i64});
  return {zeros({n, 2}), y};
}

// What is written, on one terminal line after the other.
struct Lines {
  std::string out;
  double now = 0;
  ProgressOptions options(ProgressOptions o = {}) {
    o.style = ProgressStyle::lines, o.columns = 200;
    o.sink = [this](std::string_view text) { out += text; };
    o.clock = [this] { return now; };
    return o;
  }
};

}  // namespace

TEST_CASE("enumerate: every loader's batches with their numbers, epoch after epoch") {
  const auto check = [](auto& loader) {
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<i64> numbers, samples;
      for (auto [i, batch] : enumerate(loader)) {
        numbers.push_back(i);
        for (const i64 v : batch.y.template to_vector<i64>()) samples.push_back(v);
      }
      CHECK(numbers == std::vector<i64>{0, 1, 2});
      CHECK(samples == std::vector<i64>{0, 1, 2, 3, 4, 5, 6, 7});
    }
  };
  for (const int workers : {0, 2}) {
    Loader loader(rows(8), {.batch = 3, .workers = workers});
    CHECK(enumerate(loader).size() == 3);
    check(loader);
    StreamLoader stream(decoded(generated<i64>([](i64) {
                                  return [i = i64{0}](i64& v) mutable { return v = i, i++ < 8; };
                                }),
                                [](i64 v) {
                                  return std::pair<Tensor, i64>{zeros({2}), v};
                                }),
                        {.batch = 3, .workers = workers});
    check(stream);
  }
  ResidentLoader resident(rows(8), {.batch = 3});
  CHECK(enumerate(resident).size() == 3);
  check(resident);
}

TEST_CASE("enumerate: numbers go on after a break and a resume, and nothing is copied") {
  Loader loader(rows(10), {.batch = 2});
  for (auto [i, batch] : enumerate(loader)) {
    batch.x = ones({1});  // the loader's own
    if (i == 1) break;
  }
  std::vector<i64> numbers;
  for (auto [i, batch] : enumerate(loader)) numbers.push_back(i);
  CHECK(numbers == std::vector<i64>{2, 3, 4});
  loader.set_state({.epoch = 4, .batch = 3});
  numbers.clear();
  for (auto [i, batch] : enumerate(loader, 100)) numbers.push_back(i);
  CHECK(numbers == std::vector<i64>{103, 104});
  // Others than loaders, of one's own too.
  std::vector<std::string> names{"a", "b"};
  for (auto [i, name] : enumerate(names)) name += std::to_string(i);
  CHECK(names == std::vector<std::string>{"a0", "b1"});
  i64 sum = 0;
  for (const auto [i, v] : enumerate(std::vector<int>{5, 6}, 1)) sum += i * v;
  CHECK(sum == 1 * 5 + 2 * 6);
  for (auto [i, batch] : enumerate(Loader{rows(4), {.batch = 4}})) CHECK(batch.size() == 4);
}

TEST_CASE("progress: a loader's line says epoch, step of how many, steps and samples a second") {
  Loader loader(rows(10), {.batch = 4});
  Lines screen;
  const ProgressOptions o = screen.options({.desc = "train", .items = "img", .epochs = 3});
  auto bar = progress(enumerate(loader), o);
  std::vector<i64> numbers;
  for (auto [i, batch] : bar) {
    numbers.push_back(i);
    batch.x = {};  // what was in it was counted before
    screen.now += 1;
    bar.set_postfix("loss=0.5");
  }
  CHECK(numbers == std::vector<i64>{0, 1, 2});
  // Ten samples and three batches in three seconds.
  CHECK(screen.out.ends_with(
      "epoch 1/3 train: 100% 3/3 [00:03<00:00,  1.00it/s, 3.33img/s, loss=0.5]\n"));
  // The other way round, in the middle of the second epoch.
  loader.set_state({.epoch = 1, .batch = 1});
  screen = {};
  numbers.clear();
  for (auto [i, batch] :
       enumerate(progress(loader, screen.options({.items = "img", .epochs = 3})))) {
    numbers.push_back(i);
    screen.now += 2;
  }
  CHECK(numbers == std::vector<i64>{1, 2});
  CHECK(screen.out.ends_with("epoch 2/3: 100% 3/3 [00:04<00:00,  2.00s/it, 1.50img/s]\n"));
}

TEST_CASE("progress: samples are those of tensors, of several and of own batches") {
  CHECK(wt::detail::items_in(zeros({7, 2})) == 7);
  CHECK(wt::detail::items_in(std::array<Tensor, 2>{zeros({5}), zeros({5, 3})}) == 5);
  CHECK(wt::detail::items_in(Batch{zeros({6, 1}), zeros({6})}) == 6);
  CHECK(wt::detail::items_in(std::string("text")) == 1);
  CHECK(wt::detail::items_in(3) == 1);
  // Rates of thousands need no digits behind the point.
  wt::detail::ProgressFigures f{"", "it", "", 5, 10, 1, 5};
  f.style = ProgressStyle::lines, f.items = "img", f.item_rate = 2330.4;
  CHECK(wt::detail::format_progress(f) == " 50% 5/10 [00:01<00:01,  5.00it/s, 2330img/s]");
  f.item_rate = 0;
  CHECK(wt::detail::format_progress(f) == " 50% 5/10 [00:01<00:01,  5.00it/s, ?img/s]");
}
