// Times that include what a device still has to do.
#include "warptape/core/stopwatch.h"

#include <chrono>
#include <cmath>
#include <thread>

#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;

namespace {
void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
}  // namespace

TEST_CASE("stopwatch: runs, stops, goes on, starts anew") {
  Stopwatch w;
  sleep_ms(5);
  const double a = w.seconds();
  CHECK(a >= 0.005);
  w.stop();
  const double b = w.seconds();
  CHECK(b >= a);
  CHECK(!w.running());
  sleep_ms(5);
  CHECK(w.seconds() == b);
  w.stop();
  CHECK(w.seconds() == b);
  w.start();
  sleep_ms(2);
  CHECK(w.seconds() >= b + 0.002);
  CHECK(w.milliseconds() >= 1e3 * b);
  w.restart();
  CHECK(w.seconds() < b);
}

TEST_CASE("stopwatch and time: they wait for the device") {
  wt_test::FakeCuda fake;
  const Device d = Device::cuda();
  const Tensor host = pin(zeros({4}), d);
  const auto queue = [&] { (void)copy_async(host, d); };
  Stream::current(d).synchronize();
  queue();
  REQUIRE(fake.queued() > 0);
  Stopwatch w(d);
  CHECK(fake.queued() == 0);
  queue();
  CHECK(fake.queued() > 0);
  (void)w.seconds();
  CHECK(fake.queued() == 0);
  {
    const SyncGuard guard;
    CHECK_THROWS_AS(w.seconds(), UsageError);
  }
  const bench::TimeSpread t =
      bench::time(queue, {.device = d, .seconds = 0, .min_samples = 2, .sample_seconds = 0});
  CHECK(t.samples == 2);
  CHECK(fake.queued() == 0);
}

TEST_CASE("trap T18, row 113: a watch of the cpu that is read while a device is at work says so",
          "[trap]") {
  wt_test::FakeCuda fake;
  const wt_test::Warnings heard;
  const std::vector<std::string>& said = wt_test::warnings();
  const Device d = Device::cuda();
  const Tensor host = pin(zeros({4}), d);
  const Tensor there = host.to(d);
  const auto queue = [&] { (void)copy_async(host, d); };
  Stream::current(d).synchronize();
  Stopwatch of_cpu, of_device(d);
  (void)of_cpu.seconds();
  CHECK(said.empty());  // nothing is queued
  queue();
  (void)of_device.seconds();  // waits
  CHECK(fake.queued() == 0);
  CHECK(said.empty());
  queue();
  CHECK(of_cpu.seconds() > 0);
  CHECK(fake.queued() > 0);  // it waits for nothing
  REQUIRE(said.size() == 1);
  CHECK(mentions(said[0], "was read while cuda:0 has work queued"));
  CHECK(mentions(said[0], "Stopwatch{x.device()}"));
  of_cpu.stop();
  CHECK(said.size() == 1);  // once a process
  detail::forget_warnings();
  of_cpu.start();
  of_cpu.stop();
  CHECK(said.size() == 2);
  // What is measured over many calls has warm-ups that do not count, and waits.
  int calls = 0;
  const bench::TimeSpread t =
      bench::time([&] { ++calls, queue(); },
                  {.device = d, .warmups = 4, .seconds = 0, .min_samples = 2, .sample_seconds = 0});
  CHECK(calls == 4 + 1 + t.samples);
  CHECK(fake.queued() == 0);
}

TEST_CASE("time: the spread of many calls") {
  int calls = 0;
  const bench::TimeSpread t = bench::time(
      [&] {
        ++calls;
        sleep_ms(2);
      },
      {.warmups = 2, .seconds = 0.05});
  CHECK(t.calls == 1);
  CHECK(t.samples >= 5);
  CHECK(calls == 2 + 1 + t.samples);
  CHECK(t.min >= 0.002);
  CHECK(t.min <= t.p10);
  CHECK(t.p10 <= t.median);
  CHECK(t.median <= t.p90);
  CHECK(t.p90 <= t.max);
  CHECK(t.mean >= t.min);
  CHECK(t.mean <= t.max);
  CHECK(t.spread() >= 0);
  // What is fast is called many times a measurement, so that the clock does not count.
  volatile int sink = 0;
  const bench::TimeSpread fast = bench::time([&] { sink = sink + 1; }, {.seconds = 0.02});
  CHECK(fast.calls > 1000);
  CHECK(fast.median < 1e-6);
  CHECK(fast.median > 0);
}

TEST_CASE("time: what it prints, what it refuses, what it rethrows") {
  bench::TimeSpread t;
  t.median = 412.31e-6, t.p10 = 405.1e-6, t.p90 = 431.8e-6, t.min = 401e-6, t.samples = 512;
  t.calls = 1;
  CHECK(t.text() == "412.3 us (p10 405.1, p90 431.8, min 401; 512 runs)");
  CHECK(std::abs(t.spread() - 26.7 / 412.31) < 1e-9);
  t.calls = 7;
  t.median = 2;
  CHECK(mentions(t.text(), "2 s (p10"));
  CHECK(mentions(t.text(), "512 runs of 7)"));
  CHECK_THROWS_AS(bench::time([] {}, {.warmups = -1}), UsageError);
  CHECK_THROWS_AS(bench::time([] {}, {.min_samples = 9, .max_samples = 5}), UsageError);
  CHECK_THROWS_AS(bench::time([] { throw DataError("x"); }), DataError);
}
