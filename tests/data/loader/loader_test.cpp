// Datasets and the loader: order, position, files that are wrong.
#include "warptape/data/loader.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/progress.h"
#include "warptape/data/idx.h"
#include "warptape/tests/data/loaders.h"
#include "warptape/tests/data/memory_growth.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;
using wt_test::grows_by;

namespace {

TensorDataset numbers(i64 n) { return {arange(n), arange(n)}; }

std::vector<i64> all(Loader<TensorDataset>& loader) {
  std::vector<i64> seen;
  for (auto& [x, y] : loader) {
    for (i64 v : x.to_vector<i64>()) seen.push_back(v);
    CHECK(y.to_vector<i64>() == x.to_vector<i64>());
  }
  return seen;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

// PyTorch's DataLoader takes `num_works=4` until the line runs; here it is no member. That the
// compiler's message names it: tests/compile_fail/traps.cpp.
template <class O>
concept HasMisspelling = requires {
  O{.num_works = 4};
};
template <class O>
concept HasWorkers = requires {
  O{.workers = 4};
};

TEST_CASE("trap T14: an option that does not exist does not compile", "[trap]") {
  CHECK(HasWorkers<LoaderOptions>);
  CHECK(!HasMisspelling<LoaderOptions>);
  Loader loader{numbers(4), {.batch = 2, .workers = 1}};
  CHECK(all(loader) == std::vector<i64>{0, 1, 2, 3});
}

TEST_CASE("loader: every sample once an epoch, the order a function of seed and epoch",
          "[wall][random]") {
  Loader plain{numbers(10), {.batch = 4}};
  CHECK(plain.size() == 3);
  CHECK(all(plain) == std::vector<i64>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Loader a{numbers(100), {.batch = 7, .shuffle = true, .seed = 5}};
  Loader b{numbers(100), {.batch = 9, .shuffle = true, .seed = 5}};
  Loader c{numbers(100), {.batch = 7, .shuffle = true, .seed = 6}};
  const std::vector<i64> first = all(a);
  CHECK(std::set<i64>(first.begin(), first.end()).size() == 100);
  CHECK(first == all(b));
  CHECK(first != all(c));
  const std::vector<i64> second = all(a);
  CHECK(second != first);
  CHECK(second == all(b));
  Loader dropped{numbers(10), {.batch = 4, .drop_last = true}};
  CHECK(all(dropped).size() == 8);
}

TEST_CASE("loader: its position comes back in the middle of an epoch") {
  Loader a{numbers(50), {.batch = 8, .shuffle = true, .seed = 1}};
  all(a);
  Batch batch;
  for (int i = 0; i < 3; ++i) REQUIRE(a.next(batch));
  Loader b{numbers(50), {.batch = 8, .shuffle = true, .seed = 1}};
  b.set_state(a.state());
  CHECK(all(a) == all(b));
  CHECK(a.state() == b.state());
  CHECK_THROWS_AS(b.set_state({0, 99}), UsageError);
}

TEST_CASE("loader: options that make no sense") {
  CHECK_THROWS_AS((Loader{numbers(3), {.batch = 0}}), UsageError);
  CHECK_THROWS_AS((Loader{numbers(3), {.batch = 4, .drop_last = true}}), UsageError);
  CHECK_THROWS_AS((TensorDataset{arange(3), arange(4)}), ShapeError);
}

// --- workers ---

namespace {

// Samples 0 .. n-1 that take their time, fail where they are told to, and say how many threads were
// at work.
struct Slow {
  struct Log {
    std::atomic<int> calls{0}, at_once{0}, most{0};
    std::atomic<i64> fail_at{-1};
  };
  i64 n = 0;
  std::shared_ptr<Log> log = std::make_shared<Log>();
  int milliseconds = 0;

  i64 size() const { return n; }
  Batch batch(std::span<const i64> indices) const {
    ++log->calls;
    const int now = ++log->at_once;
    for (int most = log->most; now > most && !log->most.compare_exchange_weak(most, now);) {}
    // Later batches are made faster: they would overtake if they could.
    std::this_thread::sleep_for(
        std::chrono::microseconds(1000 * milliseconds + (indices[0] * 7919) % 500));
    --log->at_once;
    for (i64 i : indices)
      if (i == log->fail_at) throw DataError(str("sample ", i, " cannot be read"));
    const std::vector<i64> v(indices.begin(), indices.end());
    return {tensor(v).to(DType::f32), tensor(v)};
  }
};

std::vector<i64> all(Loader<Slow>& loader) {
  std::vector<i64> seen;
  for (auto& [x, y] : loader) {
    for (i64 v : y.to_vector<i64>()) seen.push_back(v);
    CHECK(!x.requires_grad());
  }
  return seen;
}

}  // namespace

TEST_CASE("loader: the order does not depend on the number of workers") {
  const LeakGuard leaks;
  Loader alone{Slow{101}, {.batch = 7, .shuffle = true, .seed = 5}};
  const std::vector<i64> first = all(alone), second = all(alone);
  REQUIRE(first.size() == 101);
  for (const int workers : {1, 2, 5}) {
    CAPTURE(workers);
    Loader loader{Slow{101}, {.batch = 7, .shuffle = true, .seed = 5, .workers = workers}};
    CHECK(all(loader) == first);
    CHECK(all(loader) == second);
    CHECK(loader.state() == LoaderState{2, 0});
  }
}

TEST_CASE("loader: with workers, too, its position comes back in the middle of an epoch") {
  const LeakGuard leaks;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    const LoaderOptions o{.batch = 8, .shuffle = true, .seed = 1, .workers = workers};
    Loader a{Slow{100}, o};
    all(a);
    Batch batch;
    for (int i = 0; i < 3; ++i) REQUIRE(a.next(batch));
    CHECK(a.state() == LoaderState{1, 3, 100});  // not what was made ahead
    Loader b{Slow{100}, o};
    REQUIRE(b.next(batch));  // it was under way elsewhere
    b.set_state(a.state());
    CHECK(all(a) == all(b));
    CHECK(all(a) == all(b));
  }
}

TEST_CASE("loader: an exception of a worker reaches the caller, who may go on") {
  const LeakGuard leaks;
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    Slow slow{40};
    slow.log->fail_at = 17;
    Loader loader{slow, {.batch = 5, .workers = workers}};
    std::vector<i64> seen;
    const std::string error = message_of([&] {
      for (auto& [x, y] : loader)
        for (i64 v : y.to_vector<i64>()) seen.push_back(v);
    });
    CHECK(wt_test::without_worker(error, workers) ==
          "DataError: sample 17 cannot be read\n  in batch 3 of epoch 0, dataset (anonymous "
          "namespace)::Slow, samples 15, 16, 17, 18, 19");
    CHECK(seen.size() == 15);  // those before the bad batch were given first
    CHECK(loader.state() == LoaderState{0, 3, 40});
    CHECK(mentions(message_of([&] { all(loader); }), "sample 17"));  // the same batch once more
    slow.log->fail_at = -1;
    CHECK(all(loader).size() == 25);
  }
}

TEST_CASE("loader: workers work at the same time, and not further ahead than they may") {
  const LeakGuard leaks;
  Slow slow{200};
  slow.milliseconds = 5;
  {
    Loader loader{slow, {.batch = 5, .workers = 4, .prefetch = 1}};
    Batch batch;
    REQUIRE(loader.next(batch));
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
    CHECK(slow.log->calls == 5);  // one given, four waiting
    CHECK(all(loader).size() == 195);
    CHECK(slow.log->most > 1);
    CHECK(slow.log->most <= 4);
    REQUIRE(loader.next(batch));  // and away in the middle of an epoch
  }
  CHECK(slow.log->at_once == 0);
}

TEST_CASE("loader: memory of batches goes back to the workers that make them") {
  // New samples, copies of shared ones, and views of what the dataset keeps.
  struct Views {
    Tensor all = arange(4096);
    i64 size() const { return 256; }
    Batch batch(std::span<const i64> i) const { return {all, all.narrow(0, i[0], 1)}; }
  };
  // x and y are parts of one new tensor, or the same.
  struct Windows {
    bool same = false;
    i64 size() const { return 256; }
    Batch batch(std::span<const i64>) const {
      const Tensor t = ones({2, 512});
      if (same) return {t, t};
      return {t.narrow(0, 0, 1), t.narrow(0, 1, 1)};
    }
  };
  for (const int workers : {1, 3}) {
    CAPTURE(workers);
    const LoaderOptions o{.batch = 8, .workers = workers};
    // Batches in flight may be made at once for the first time late; 500 batches are 4 MB.
    CHECK(grows_by(Loader{TensorDataset{ones({64, 128}), ones({64, 128})}, o}) < 400'000);
    CHECK(grows_by(Loader{Views{}, o}) < 400'000);
    CHECK(grows_by(Loader{Windows{}, o}) < 400'000);
    CHECK(grows_by(Loader{Windows{.same = true}, o}) < 400'000);
    // What the caller keeps is the caller's.
    Loader kept{TensorDataset{ones({64, 128}), ones({64, 128})}, o};
    std::vector<Batch> all;
    for (int i = 0; i < 100; ++i) {
      Batch b;
      if (kept.next(b)) all.push_back(b);
    }
    for (const Batch& b : all) CHECK(b.x.to_vector<float>().at(0) == 1);
  }
}

TEST_CASE("loader: one an epoch leaves no memory behind, read to the end or not") {
  const TensorDataset data{ones({64, 1024}), ones({64, 1024})};
  for (const i64 batches : {8, 2, 0}) {
    const auto after = [&](int loaders) {
      for (int i = 0; i < loaders; ++i) {
        Loader loader{data, {.batch = 8, .workers = 2}};
        Batch b;
        for (i64 k = 0; k < batches; ++k) REQUIRE(loader.next(b));
      }
      return memory::stats(Device::cpu()).reserved;
    };
    CAPTURE(batches);
    const i64 before = after(5);
    // A batch has 64 KiB. How many of them two workers have under way at once differs from loader
    // to loader, by up to six; one left behind by each loader would be 2.5 MB.
    CHECK(after(40) - before < 6 * 64 * 1024);
  }
}

TEST_CASE("loader: a worker's batches do not depend on the caller's modes") {
  const LeakGuard leaks;
  const InferenceMode inference;
  Loader loader{Slow{4}, {.batch = 2, .workers = 1}};
  CHECK(all(loader) == std::vector<i64>{0, 1, 2, 3});
  CHECK_THROWS_AS((Loader{Slow{4}, {.workers = -2}}), UsageError);
  CHECK_THROWS_AS((Loader{Slow{4}, {.workers = 1, .prefetch = 0}}), UsageError);
}

// Batches after the first of a loader wait until `open`: meanwhile its workers hold no lock. A fork
// beside a thread that allocates hangs the child under AddressSanitizer, whose allocator's locks
// are then nobody's (glibc hands its own over).
struct Gated {
  struct Gate {
    std::atomic<bool> open{false};
    std::atomic<int> waiting{0};
  };
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();

  i64 size() const { return 40; }
  Batch batch(std::span<const i64> indices) const {
    if (indices[0] != 0) {
      ++gate->waiting;
      while (!gate->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {ones({i64(indices.size()), 2}), ones({i64(indices.size())})};
  }
};

TEST_CASE("loader: a child of fork() is told that the workers are not there") {
  const Gated data;
  Loader loader{data, {.batch = 4, .workers = 2}};
  Loader alone{Slow{40}, {.batch = 4}};
  Batch batch;
  REQUIRE(loader.next(batch));
  while (data.gate->waiting < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // what hangs is killed
    const std::string text = message_of([&] { (void)loader.next(batch); });
    bool good = mentions(text, "UsageError") && mentions(text, "after fork()");
    { const Loader gone = std::move(loader); }
    good &= alone.next(batch);
    Loader own{Slow{40}, {.batch = 4, .workers = 2}};
    good &= own.next(batch);
    ::_exit(good ? 0 : 1);
  }
  data.gate->open = true;
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(loader.next(batch));  // the parent goes on
}

// Without tensors(), which a batch needs for TrainStep alone.
struct Rows {
  struct Row {
    Tensor x;
    i64 first = 0;
  };
  i64 size() const { return 64; }
  Row batch(std::span<const i64> at) const { return {ones({i64(at.size()), 512}), at[0]}; }
};
TEST_CASE("loader: batches may be of any type, and give their memory back") {
  const LoaderOptions o{.batch = 8, .workers = 2};
  CHECK(wt_test::grows_by(Loader{Rows{}, o}) < 400'000);
}

TEST_CASE("loader: it may be moved, and be shown by a progress line, owned or not") {
  const LeakGuard leaks;
  std::string out;
  const auto options = [&] {
    return ProgressOptions{.desc = "train",
                           .style = ProgressStyle::bar,
                           .columns = 60,
                           .sink = [&](std::string_view t) { out += t; },
                           .clock = [] { return 0.0; }};
  };
  Loader first{Slow{20}, {.batch = 4, .workers = 2}};
  Batch batch;
  REQUIRE(first.next(batch));
  Loader loader = std::move(first);
  i64 seen = 0;
  for (auto& [x, y] : wt::progress(loader, options())) seen += y.size(0);
  CHECK(seen == 16);
  CHECK(mentions(out, " 1/5 "));  // where it was
  CHECK(mentions(out, " 5/5 "));
  out.clear();
  seen = 0;
  for (auto& [x, y] : wt::progress(Loader{Slow{20}, {.batch = 4}}, options())) seen += y.size(0);
  CHECK(seen == 20);
  CHECK(mentions(out, " 0/5 "));
}

TEST_CASE("text bytes: windows, parts without overlap, entropy") {
  std::vector<u8> text(100);
  for (size_t i = 0; i < text.size(); ++i) text[i] = u8(i);
  const TextBytes train(text, {.context = 4, .end = 0.8});
  const TextBytes held(text, {.context = 4, .begin = 0.8});
  CHECK(train.size() == 76);
  CHECK(held.size() == 16);
  const i64 last[] = {75};
  const Batch b = train.batch(last);
  CHECK(b.x.to_vector<i64>() == std::vector<i64>{75, 76, 77, 78});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{79});
  CHECK(std::abs(unigram_entropy(held.bytes()) - std::log(20.0)) < 1e-12);
  CHECK_THROWS_AS(TextBytes(text, {.context = 100}), DataError);
  CHECK_THROWS_AS(TextBytes(text, {.context = 4, .stride = 0}), UsageError);
}

TEST_CASE("text bytes: a target for every position, strides, other samples of the same text") {
  std::vector<u8> text(100);
  for (size_t i = 0; i < text.size(); ++i) text[i] = u8(i);
  const TextBytes train(text, {.context = 3, .end = 0.5, .every_position = true});
  const i64 two[] = {0, 46};
  const Batch b = train.batch(two);
  CHECK(b.y.shape() == Shape{2, 3});
  CHECK(b.x.to_vector<i64>() == std::vector<i64>{0, 1, 2, 46, 47, 48});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{1, 2, 3, 47, 48, 49});
  CHECK(train.size() == 47);

  // Side by side: each byte but the first is asked for once, the last 50 = 16 * 3 + 2.
  const TextBytes held =
      train.with({.context = 3, .begin = 0.5, .stride = 3, .every_position = true});
  CHECK(held.size() == 16);
  CHECK(held.bytes().size() == 50);
  CHECK(train.bytes().size() == 50);
  CHECK(train.bytes().data() + 50 == held.bytes().data());  // one text
  const i64 last[] = {15};
  CHECK(held.batch(last).y.to_vector<i64>() == std::vector<i64>{96, 97, 98});
  const i64 none[] = {16};
  CHECK_THROWS_AS(held.batch(none), IndexError);
  const TextBytes wide = train.with({.context = 3, .stride = 40});
  CHECK(wide.size() == 3);
  const i64 third[] = {2};
  CHECK(wide.batch(third).x.to_vector<i64>() == std::vector<i64>{80, 81, 82});
  CHECK(wide.batch(third).y.to_vector<i64>() == std::vector<i64>{83});
}

TEST_CASE("idx: exact sizes, byte offsets in errors") {
  const TempDir dir;
  const std::string path = dir / "a";
  using namespace std::string_literals;
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcdef"s);
  const Tensor t = read_idx(path);
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t.to_vector<u8>()[5] == 'f');
  CHECK(idx_shape(path) == Shape{2, 3});
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcde"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "truncated"));
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcdefg"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "needs 6 bytes"));
  write(path, "\0\0\x0d\x01\0\0\0\x00"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "element type 13"));
  write(path, "\0\0\x08\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "overflow"));
  write(path, "hello");
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "not an IDX file"));
  CHECK(mentions(message_of([&] { (void)idx_shape(path); }), "not an IDX file"));
  write(path, "\x1f\x8b\x08\x00garbage"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), path));
}

TEST_CASE("idx: cut at any byte it is refused; with a flipped bit it is refused or other values") {
  const TempDir dir;
  const std::string path = dir / "a";
  using namespace std::string_literals;
  const std::string good =
      "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
      "abcdef"s;
  const auto refusal = [&](const std::string& bytes) {
    write(path, bytes);
    return message_of([&] { (void)read_idx(path); });
  };
  REQUIRE(refusal(good) == "");
  for (size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    CHECK(mentions(refusal(good.substr(0, n)), path + ": at byte "));
  }
  for (size_t bit = 0; bit < 12 * 8; ++bit) {
    CAPTURE(bit);
    std::string damaged = good;
    damaged[bit / 8] ^= char(1 << bit % 8);
    CHECK(mentions(refusal(damaged), path + ": at byte "));
  }
  CHECK(mentions(refusal("\0\0\x08\x02\0\0\0\x03\0\0\0\x02"
                         "abcdefg"s),
                 "needs 6 bytes"));
}

TEST_CASE("idx: the shape comes from the header of a gzip file, however damaged the rest is") {
  const TempDir dir;
  const std::string path = dir / "a.gz";
  using namespace std::string_literals;
  const std::string idx = "\0\0\x08\x02\0\0\0\x05\0\0\0\x14"s + std::string(100, 'x');
  // A stored block, then a check sum that is wrong.
  const std::string block = "\x01\x70\0\x8f\xff"s + idx;
  write(path, "\x1f\x8b\x08\0\0\0\0\0\0\x03"s + block + "checkSUM");
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  CHECK(idx_shape(path) == Shape{5, 20});
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "damaged"));
  write(path, "\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x70\0"s);
  CHECK(mentions(message_of([&] { (void)idx_shape(path); }), "ends early"));
}

TEST_CASE("fashion mnist: a missing folder or file is named") {
  CHECK(mentions(message_of([] { FashionMnist("/no/such/folder"); }), "no such folder"));
  const TempDir dir;
  CHECK(mentions(message_of([&] { FashionMnist(dir.path); }), "train-images-idx3-ubyte"));
  // A link that leads in a circle is named itself.
  const std::string loop = dir / "train-images-idx3-ubyte";
  std::filesystem::create_symlink("train-images-idx3-ubyte", loop);
  spit(dir / "train-labels-idx1-ubyte", "");
  CHECK(
      mentions(message_of([&] { FashionMnist(dir.path); }), "DataError: " + loop + ": cannot be"));
}
