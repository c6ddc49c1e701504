// Batches that a Loader moves to a device, on simt's queues: bytes, order, streams, ownership.
#include <cmath>
#include <map>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/stream.h"
#include "warptape/data/loader.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

const Device kSimt = Device::simt();

TensorDataset numbers(i64 n) {
  return {arange(n).to(f32).reshape({n, 1}).expand({n, 5}).contiguous(), arange(n)};
}

// Samples 0 .. n-1, of which one cannot be read as often as it says.
struct Torn {
  i64 n = 12, at = -1;
  std::shared_ptr<int> times = std::make_shared<int>(1);
  i64 size() const { return n; }
  Batch batch(std::span<const i64> s) const {
    for (const i64 i : s)
      if (i == at && *times > 0) {
        --*times;
        throw DataError("torn");
      }
    const Tensor t = tensor(std::vector<i64>(s.begin(), s.end()));
    return {t, t};
  }
};

// Notes the streams that copies to the device go to.
struct CopyLedger {
  static inline StreamBackend before{}, noting{};
  static inline const StreamBackend* real = nullptr;
  static inline std::vector<void*> streams;
  static inline int fails = -1;  // the copy of this number, counted from 0
  static void note(void* to, Device d, const void* host, i64 bytes, void* stream) {
    if (int(streams.size()) == fails) {
      fails = -1;
      throw DeviceError("the copy failed");
    }
    streams.push_back(stream);
    before.from_host(to, d, host, bytes, stream);
  }
  CopyLedger() {
    real = stream_backend(kSimt);
    before = noting = *real;
    noting.from_host = note;
    streams.clear();
    set_stream_backend(DeviceKind::simt, &noting);
  }
  ~CopyLedger() { set_stream_backend(DeviceKind::simt, real); }
};

}  // namespace

TEST_CASE("loader: batches come to the device, the same bytes in the same order", "[streams]") {
  const LeakGuard leaks;
  for (const auto streams : {SimtStreams::eager, SimtStreams::lazy})
    for (const int workers : {0, 2})
      for (u64 seed = 1; seed <= 3; ++seed) {
        CAPTURE(workers, seed, streams == SimtStreams::lazy);
        const WithStreams on(streams, seed);
        LoaderOptions o{.batch = 4, .shuffle = true, .seed = 2, .workers = workers};
        Loader plain{numbers(30), o};
        o.device = kSimt;
        Loader moved{numbers(30), o};
        for (int epoch = 0; epoch < 2; ++epoch) {
          std::vector<Batch> kept;  // none is written to again
          std::vector<Tensor> used;
          for (Batch& b : moved) {
            CHECK(b.x.device() == kSimt);
            used.push_back(mul(b.x, 2));
            kept.push_back(b);
          }
          size_t k = 0;
          for (Batch& b : plain) {
            CHECK(kept.at(k).x.to_vector<float>() == b.x.to_vector<float>());
            CHECK(kept[k].y.to_vector<i64>() == b.y.to_vector<i64>());
            CHECK(used[k].to_vector<float>() == mul(b.x, 2).to_vector<float>());
            ++k;
          }
          CHECK(k == kept.size());
        }
        CHECK(moved.state() == plain.state());
        CHECK(moved.stats().bytes_to_device == 2 * 30 * (5 * 4 + 8));
      }
}

TEST_CASE("loader: copies go to a stream of their own, a batch ahead, from pinned memory",
          "[streams]") {
  const WithStreams lazy(SimtStreams::lazy, 1);
  const CopyLedger ledger;
  Loader loader{numbers(20), {.batch = 4, .device = kSimt}};
  Batch b;
  const size_t of_batch = 2;  // tensors
  REQUIRE(loader.next(b));
  CHECK(ledger.streams.size() == 2 * of_batch);  // this one's and the next one's
  REQUIRE(loader.next(b));
  CHECK(ledger.streams.size() == 3 * of_batch);
  for (void* const s : ledger.streams) {
    CHECK(s != nullptr);
    CHECK(s != Stream::current(kSimt).native());
    CHECK(s == ledger.streams[0]);
  }
  CHECK(b.x.to_vector<float>()[0] == 4);
  // The last batch has none behind it.
  for (int i = 0; i < 3; ++i) REQUIRE(loader.next(b));
  CHECK(ledger.streams.size() == 5 * of_batch);
  CHECK(!loader.next(b));
}

TEST_CASE("loader: a batch whose copy failed comes at the next call", "[streams]") {
  const LeakGuard leaks;
  for (const int workers : {0, 2})
    for (const int fails : {0, 1, 4, 5}) {  // of batch 0, of the one behind it
      CAPTURE(workers, fails);
      const WithStreams lazy(SimtStreams::lazy, 1);
      const CopyLedger ledger;
      Loader loader{numbers(12), {.batch = 3, .workers = workers, .device = kSimt}};
      CopyLedger::fails = fails;
      int thrown = 0;
      Batch b;
      for (i64 k = 0; k < 4;) try {
          const bool more = loader.next(b);
          REQUIRE(more);
          CHECK(b.y.to_vector<i64>() == std::vector<i64>{3 * k, 3 * k + 1, 3 * k + 2});
          ++k;
        } catch (const DeviceError&) {
          ++thrown;
        }
      CHECK(thrown == 1);
      CHECK(!loader.next(b));
    }
}

TEST_CASE("loader: a loop that keeps no batch keeps two on the device", "[streams]") {
  const WithStreams lazy(SimtStreams::lazy, 1);
  const i64 n = 64, width = 4096;
  Loader loader{TensorDataset(zeros({n, width}), arange(n)), {.batch = 4, .device = kSimt}};
  Batch b;
  const i64 before = memory::stats(kSimt).live;
  i64 most = 0;
  while (loader.next(b)) {
    Stream::current(kSimt).synchronize();
    most = std::max(most, memory::stats(kSimt).live - before);
  }
  CHECK(most >= 2 * 4 * width * 4);
  CHECK(most < 3 * 4 * width * 4);
}

TEST_CASE("loader: position and errors with a batch on its way", "[streams]") {
  const LeakGuard leaks;
  const WithStreams lazy(SimtStreams::lazy, 1);
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const LoaderOptions o{
        .batch = 3, .shuffle = true, .seed = 1, .workers = workers, .device = kSimt};
    Loader a{numbers(20), o}, c{numbers(20), o};
    Batch b, d;
    for (int i = 0; i < 9; ++i)
      if (!a.next(b)) REQUIRE(a.next(b));
    CHECK(a.state() == LoaderState{1, 2, 20});
    REQUIRE(c.next(d));
    c.set_state(a.state());
    while (a.next(b)) {
      REQUIRE(c.next(d));
      CHECK(b.y.to_vector<i64>() == d.y.to_vector<i64>());
    }
    CHECK(!c.next(d));

    // What the batch behind throws comes when its turn is, once; then it is made again.
    Loader torn{Torn{.at = 7}, {.batch = 3, .workers = workers, .device = kSimt}};
    REQUIRE(torn.next(b));
    REQUIRE(torn.next(b));
    CHECK(b.y.to_vector<i64>() == std::vector<i64>{3, 4, 5});
    CHECK_THROWS_AS(torn.next(b), DataError);
    CHECK(torn.state().batch == 2);
    REQUIRE(torn.next(b));
    CHECK(b.y.to_vector<i64>() == std::vector<i64>{6, 7, 8});
    REQUIRE(torn.next(b));
    CHECK(b.y.to_vector<i64>() == std::vector<i64>{9, 10, 11});
    CHECK(!torn.next(b));
  }
}

// "pin_memory loads into a cache first": it is page-locked memory, and copies run beside other work
// from there alone.
TEST_CASE("trap T15: copies from pageable memory are named", "[trap]") {
  const WithStreams lazy(SimtStreams::lazy, 1);
  const wt_test::Warnings watched;
  const std::vector<std::string>& lines = wt_test::warnings();
  Loader pinned{numbers(8), {.batch = 4, .device = kSimt}};
  Batch b;
  REQUIRE(pinned.next(b));
  CHECK(lines.empty());
  Loader pageable{numbers(8), {.batch = 4, .device = kSimt, .pin_memory = false}};
  REQUIRE(pageable.next(b));
  CHECK(b.x.to_vector<float>()[5] == 1);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("pin_memory = false") != std::string::npos);
  CHECK(lines[0].find("page-locked") != std::string::npos);
  Loader again{numbers(8), {.batch = 4, .device = kSimt, .pin_memory = false}};
  CHECK(lines.size() == 1);
}

TEST_CASE("loader: a batch without known tensors cannot be moved") {
  struct Words {
    i64 size() const { return 3; }
    std::vector<std::string> batch(std::span<const i64> s) const {
      return std::vector<std::string>(s.size(), "w");
    }
  };
  Loader here{Words{}, {.batch = 2}};
  std::vector<std::string> w;
  CHECK(here.next(w));
  CHECK_THROWS_AS((Loader{Words{}, {.batch = 2, .device = kSimt}}), UsageError);
  Loader cpu{numbers(4), {.batch = 2, .device = Device::cpu()}};
  Batch b;
  REQUIRE(cpu.next(b));
  CHECK(b.x.device() == Device::cpu());
  CHECK(cpu.stats().bytes_to_device == 0);
}
