// simt with queues (WT_SIMT_STREAMS=lazy): what runs when, what owns what, and what is found.
#include "warptape/core/stream.h"

#include <cmath>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/storage.h"
#include "warptape/core/tensor.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/simt/runtime.h"
#include "warptape/tests/simt/broken_kernels.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/simt/good_kernels.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

const Device kSimt = Device::simt();

// The first float of device memory as it is now: a test's look, no wait.
float peek(const Tensor& t) {
  const simt_runtime::ArenaOpen open;
  float v;
  std::memcpy(&v, t.impl()->data, sizeof v);
  return v;
}
float first(const Tensor& t) { return t.to_vector<float>()[0]; }
Tensor ones_on_simt(i64 n = 64) { return ones({n}, {.device = kSimt}); }
void wait() { Stream::current(kSimt).synchronize(); }

void broken(const char* name, float* out, const float* x) {
  for (int i = 0; i < simt::broken_kernel_count; ++i)
    if (std::string(simt::broken_kernels[i].name) == name) simt::broken_kernels[i].run(out, x);
}

// Two streams append their numbers, 10 + k and 20 + k; with `ordered` the second goes on behind the
// first's third.
std::vector<unsigned> interleaving(uint64_t seed, bool ordered) {
  const WithStreams lazy(SimtStreams::lazy, seed);
  const Stream a(kSimt), b(kSimt);
  const DeviceArray<unsigned> log(12), count(std::vector<unsigned>{0});
  for (unsigned k = 0; k < 6; ++k) {
    simt::test_append(log, count, 10 + k, a.native());
    if (ordered && k == 2) b.wait(a);
  }
  for (unsigned k = 0; k < 6; ++k) simt::test_append(log, count, 20 + k, b.native());
  a.synchronize();
  b.synchronize();
  return log.host();
}

}  // namespace

TEST_CASE("lazy simt: nothing runs before the host waits", "[streams]") {
  const WithStreams lazy(SimtStreams::lazy);
  const u64 launches = simt_stats().launches;
  const Tensor x = ones_on_simt(), y = add(x, 1), z = mul(y, y);
  CHECK(simt_stats().launches == launches);
  CHECK(std::isnan(peek(z)));
  CHECK(stream_backend(kSimt) != nullptr);
  SECTION("a copy to the host") { CHECK(first(z) == 4); }
  SECTION("item()") { CHECK(sum(z).item() == 256); }
  SECTION("an event") {
    Event e(kSimt);
    e.record();
    e.synchronize();
    CHECK(peek(z) == 4);
  }
  SECTION("synchronize()") {
    wait();
    CHECK(peek(z) == 4);
  }
  SECTION("asking until it is done") {
    while (!Stream::current(kSimt).done()) {}
    CHECK(peek(z) == 4);
  }
  SECTION("the scope in which the host reads") {
    const SimtUnprotect open;
    CHECK(peek(z) == 4);
  }
  SECTION("a full queue") {
    Tensor t = x;
    for (int i = 0; i < 3000; ++i) t = add(t, 1);
    CHECK(simt_stats().launches > launches);
    CHECK(first(t) == 3001);
  }
}

TEST_CASE("eager simt: work has run when it is queued", "[streams]") {
  const WithStreams eager(SimtStreams::eager);
  CHECK(stream_backend(kSimt) == nullptr);
  CHECK(peek(add(ones_on_simt(), 1)) == 2);
}

TEST_CASE("lazy simt: a stream keeps its order, streams interleave by seed", "[streams]") {
  std::set<std::vector<unsigned>> seen;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const bool ordered = seed % 2 == 0;
    const std::vector<unsigned> log = interleaving(seed, ordered);
    CHECK(interleaving(seed, ordered) == log);
    seen.insert(log);
    unsigned next[2] = {10, 20};
    for (const unsigned id : log) {
      CAPTURE(seed, id);
      unsigned& n = next[id / 10 - 1];
      CHECK(id == n);
      ++n;
      if (ordered && id == 20) CHECK(next[0] >= 13);  // behind the event
    }
  }
  CHECK(seen.size() > 6);
}

TEST_CASE("lazy simt: a missing wait between streams shows", "[streams]") {
  const auto run = [](uint64_t seed, bool waits) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Stream side(kSimt);
    const Tensor x = ones_on_simt();
    wait();
    Tensor y;
    {
      const StreamScope on(side);
      y = add(x, 1);
    }
    if (waits) Stream::current(kSimt).wait(side);
    const float v = first(mul(y, 2));
    side.synchronize();
    return v;
  };
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(run(seed, true) == 4);
    wrong += run(seed, false) != 4;
  }
  CHECK(wrong > 3);
}

TEST_CASE("lazy simt: a kernel's error comes with the next wait and names what was queued where",
          "[streams]") {
  const WithStreams lazy(SimtStreams::lazy);
  const DeviceArray<float> out(128), x(std::vector<float>(512, 1));
  const DeviceArray<unsigned> log(4), count(std::vector<unsigned>{0});
  u32 line = 0;
  {
    const FrameScope at(Frame{"net.cpp", 57});
    CHECK_NOTHROW(broken("barrier_of_half", out, x));
    line = 57;
  }
  simt::test_append(log, count, 1, nullptr);  // dropped with all that is queued behind the error
  std::string text;
  try {
    wait();
  } catch (const KernelError& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("KernelError: barrier_of_half [broken]: ") == 0);
  CHECK(text.find("__syncthreads at broken_kernels.cu:") != text.npos);
  CHECK(text.find(str("\n  queued at net.cpp:", line)) != text.npos);
  CHECK_NOTHROW(wait());
  CHECK(count.host()[0] == 0);
  simt::test_append(log, count, 7, nullptr);  // the device works on
  CHECK(log.host()[0] == 7);
  const WithStreams eager(SimtStreams::eager);
  CHECK_THROWS_AS(broken("barrier_of_half", out, x), KernelError);
}

TEST_CASE("lazy simt: memory is not used again while queued work needs it", "[streams]") {
  const WithStreams lazy(SimtStreams::lazy);
  Tensor x = ones_on_simt(1000);
  const void* const block = x.impl()->data;
  const auto live = simt_arena_info().live_blocks;
  Tensor y = add(x, 1);
  x = Tensor();
  CHECK(simt_arena_info().live_blocks == live);  // y came, x went
  const Tensor other = empty({1000}, {.device = kSimt});
  CHECK(other.impl()->data != block);
  CHECK(first(y) == 2);
  // Now it may be: at its own place, or with a hole before it that tests before this one left.
  const Tensor again = empty({1000}, {.device = kSimt});
  const auto* const start = static_cast<const std::byte*>(again.impl()->data);
  CHECK((start <= block && block < start + again.numel() * 4));
  SECTION("a free pointer is refused at once") {
    const void* const freed = y.impl()->data;
    const Tensor keep = add(y, 1);  // queued: y's block is still there
    y = Tensor();
    CHECK_THROWS_AS(copy_bytes(other.impl()->data, kSimt, freed, kSimt, 4), KernelError);
    CHECK(first(keep) == 3);
  }
}

TEST_CASE("lazy simt: who asks whether an event has passed is told of a failure", "[streams]") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Stream side(kSimt);
    const DeviceArray<float> sum(1);
    Tensor x = ones_on_simt(4);
    wait();
    simt::row_sum_launch(sum, static_cast<const float*>(x.impl()->data), 1, 4, side.native());
    x = Tensor();
    Event copied(kSimt);
    copied.record();
    const auto ask = [&] {
      for (int i = 0; i < 1000 && !(copied.done() && side.done()); ++i) {}
    };
    CHECK_THROWS_AS(ask(), KernelError);
    wait();  // it is said once
  }
}

TEST_CASE("lazy simt: a use on another stream that nobody recorded is reported", "[streams]") {
  const auto run = [](uint64_t seed, bool recorded) -> std::string {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Stream side(kSimt);
    const DeviceArray<float> sum(1);
    Tensor x = ones_on_simt(4);
    wait();
    simt::row_sum_launch(sum, static_cast<const float*>(x.impl()->data), 1, 4, side.native());
    if (recorded) stream_backend(kSimt)->use(kSimt, x.impl()->storage->data, side.native());
    const Tensor y = add(x, 1);  // work of the block's own stream before it is free
    x = Tensor();
    try {
      wait();
      side.synchronize();
    } catch (const KernelError& e) {
      return e.what();
    }
    return str(sum.host()[0]);
  };
  int reports = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(run(seed, true) == "4");
    const std::string text = run(seed, false);
    CAPTURE(text);
    if (text == "4") continue;  // this time it ran before
    ++reports;
    CHECK(text.find("row_sum<128> [sum]: argument 2, 0x") != text.npos);
    CHECK(text.find("nobody had recorded that this stream uses it") != text.npos);
  }
  CHECK(reports > 3);
}

TEST_CASE("lazy simt: operators record their streams", "[streams]") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Stream side(kSimt);
    Tensor x = ones_on_simt(), y;
    side.wait(Stream::current(kSimt));
    {
      const StreamScope on(side);
      y = add(x, 1);
    }
    const Tensor z = add(x, 2);
    x = Tensor();
    const Tensor w = mul(z, 3);
    side.synchronize();
    CHECK(peek(y) == 2);
    CHECK(first(w) == 9);
  }
}

TEST_CASE("lazy simt: a launch records blocks that its views begin in the middle of", "[streams]") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Stream side(kSimt);
    const Tensor out = zeros({16}, {.device = kSimt});
    Tensor x = ones_on_simt();
    side.wait(Stream::current(kSimt));
    {
      const Tensor middle = x.narrow(0, 24, 16);
      run(CopyArgs{view_of(out.impl()), view_of(middle.impl())},
          Launch{.stream = side.native(), .device = kSimt});
    }
    x = Tensor();
    wait();  // all that x's own stream has to do
    side.synchronize();
    CHECK(peek(out) == 1);
  }
}

TEST_CASE("lazy simt: copies run late, and the host's buffers are watched", "[streams]") {
  std::optional<WithStreams> lazy(SimtStreams::lazy);
  SECTION("to the device, the host's bytes unchanged") {
    const Tensor host = pin(full({100}, 3.0), kSimt);
    CHECK(is_pinned(host));
    const Tensor x = copy_async(host, kSimt);
    CHECK(std::isnan(peek(x)));
    CHECK(first(x) == 3);
  }
  SECTION("to the device, the host's bytes changed") {
    const Tensor host = pin(full({100}, 3.0), kSimt);
    auto* const values = static_cast<float*>(host.impl()->data);
    const Tensor x = copy_async(host, kSimt);
    values[5] = 4;  // behind the library's back
    std::string text;
    try {
      wait();
    } catch (const KernelError& e) {
      text = e.what();
    }
    CHECK(text.find("copy from the host: the host changed 400 bytes of its buffer before") !=
          text.npos);
  }
  SECTION("a write that the library knows of waits") {
    Tensor host = pin(full({100}, 3.0), kSimt);
    const Tensor x = copy_async(host, kSimt);
    host.add_(tensor({1.0f}));
    CHECK(first(x) == 3);
  }
  SECTION("to the host: NaN until it has arrived") {
    const Tensor y = copy_async(add(ones_on_simt(), 1), Device::cpu());
    CHECK(std::isnan(*static_cast<const float*>(y.impl()->data)));
    CHECK(y.data<float>()[0] == 2);
  }
  SECTION("there and back without the host") {
    const Tensor y = copy_async(add(ones_on_simt(), 1), Device::cpu());
    const Tensor z = copy_async(y, kSimt);
    CHECK(first(z) == 2);
  }
  SECTION("the memory is not used again too early") {
    Tensor host = pin(full({100}, 3.0), kSimt);
    const Tensor x = copy_async(host, kSimt);
    host = Tensor();
    const Tensor other = pin(zeros({100}), kSimt);
    CHECK(first(x) == 3);
    CHECK(other.data<float>()[0] == 0);
  }
  SECTION("page-locked memory that is given back too early") {
    const StreamBackend* b = stream_backend(kSimt);
    void* const host = b->take_host(256);
    std::memset(host, 0, 256);
    const Tensor x = empty({64}, {.device = kSimt});
    b->from_host(x.impl()->data, kSimt, host, 256, nullptr);
    b->give_host(host);
    CHECK_THROWS_AS(wait(), KernelError);
  }
  SECTION("plain memory is the host's again at once, whatever the number of pieces") {
    std::vector<float> values(6 << 20, 1);
    const Tensor x = empty({i64(values.size())}, {.device = kSimt});
    copy_bytes(x.impl()->data, kSimt, values.data(), Device::cpu(), i64(values.size()) * 4);
    std::fill(values.begin(), values.end(), 2.0f);
    copy_bytes(values.data(), Device::cpu(), x.impl()->data, kSimt, i64(values.size()) * 4);
    CHECK(values.front() == 1);
    CHECK(values.back() == 1);
  }
}

TEST_CASE("lazy simt: events", "[streams]") {
  const WithStreams lazy(SimtStreams::lazy);
  Event start(kSimt, true), end(kSimt, true);
  CHECK(start.done());
  start.record();
  const Tensor y = add(ones_on_simt(), 1);
  end.record();
  CHECK(start.done());  // nothing was queued before it
  CHECK_THROWS_AS(end.milliseconds_since(start), UsageError);
  end.synchronize();
  CHECK(end.milliseconds_since(start) >= 0);
  const SyncGuard guard;
  CHECK_THROWS_AS(end.synchronize(), UsageError);
  CHECK_THROWS_AS(wait(), UsageError);
}

TEST_CASE("lazy simt: work of many threads", "[streams]") {
  const WithStreams lazy(SimtStreams::lazy, 5);
  std::vector<float> results(4);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&results, t] {
        Tensor x = full({256}, double(t), {.device = kSimt});
        for (int i = 0; i < 200; ++i) x = add(x, 1);
        results[size_t(t)] = first(x);
      });
  }
  for (int t = 0; t < 4; ++t) CHECK(results[size_t(t)] == float(t + 200));
}

TEST_CASE("WT_SIMT_STREAMS is checked", "[streams]") {
  using simt_runtime::parse_streams;
  CHECK(parse_streams(nullptr).mode == SimtStreams::eager);
  CHECK(parse_streams("").mode == SimtStreams::eager);
  CHECK(parse_streams("eager").mode == SimtStreams::eager);
  CHECK(parse_streams("lazy").mode == SimtStreams::lazy);
  CHECK(parse_streams("lazy").seed == 1);
  CHECK(parse_streams("lazy:42").mode == SimtStreams::lazy);
  CHECK(parse_streams("lazy:42").seed == 42);
  for (const char* bad : {"lazy:", "lazy:x", "lazy:1x", "lazy:-1", "late", "eager:1", "Lazy"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_streams(bad), UsageError);
  }
}
