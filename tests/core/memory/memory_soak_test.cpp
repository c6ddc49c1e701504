// Memory between threads and of sizes that never come back, for long: what is reserved and what the
// process holds stay below a bound. WT_SOAK_STEPS makes it longer;
// tools/soak.sh reads the lines that begin with "soak:".
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

// There when the program is linked with AddressSanitizer, which keeps freed memory for a while.
extern "C" void __asan_init() __attribute__((weak));

namespace {

constexpr i64 kMiB = i64(1) << 20;

i64 resident() {
  std::ifstream in("/proc/self/statm");
  i64 all = 0, pages = 0;
  in >> all >> pages;
  return pages * 4096;
}

// Sizes come again after 100 rounds. Under a sanitizer, which keeps what is freed, nothing is said
// of what the process holds, and a part of them has every access.
i64 soak_rounds() {
  const i64 least = wt_test::whole_walk() ? 200 : 40;
  const char* const asked = std::getenv("WT_SOAK_STEPS");
  return asked ? std::max<i64>(least, std::atoll(asked)) : least;
}

// Round after round, what is reserved stays below what it was before the first and `most` bytes
// more, and what the process holds twice that: malloc does not give everything back at once.
template <class F>
void soak(const char* name, i64 most, F&& round) {
  memory::empty_cache();
  const i64 rounds = soak_rounds(), resident_before = resident();
  const i64 reserved_before = memory::stats(Device::cpu()).reserved;
  for (i64 i = 0; i < rounds; ++i) {
    round(i);
    const i64 reserved = memory::stats(Device::cpu()).reserved - reserved_before;
    const i64 held = resident() - resident_before;
    if (i % std::max<i64>(1, rounds / 5) == 0)
      std::printf("soak: %s round %lld: %.1f MiB more reserved, %.1f MiB more held\n", name,
                  static_cast<long long>(i), double(reserved) / double(kMiB),
                  double(held) / double(kMiB));
    CAPTURE(i, reserved, held, most);
    REQUIRE(reserved <= most);
    if (!__asan_init) REQUIRE(held <= 2 * most);
  }
}

// Tensors on their way from thread to thread.
class Queue {
 public:
  void put(Tensor t) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < 16; });
    waiting_.push_back(std::move(t));
    changed_.notify_all();
  }
  Tensor take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty(); });
    Tensor t = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    return t;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Tensor> waiting_;
};

}  // namespace

TEST_CASE("soak: what threads make, others finish and drop, and nothing grows", "[memory]") {
  const LeakGuard guard;
  constexpr int kTensors = 200;
  soak("threads", 8 * kMiB, [&](i64 round) {
    Queue made, used;
    std::thread makes([&] {
      std::minstd_rand sizes(unsigned(round) + 1);
      for (int i = 0; i < kTensors; ++i)
        made.put(ones({1 + i64(sizes() % 7), 700}).set_requires_grad());
    });
    std::thread uses([&] {
      for (int i = 0; i < kTensors; ++i) used.put(sum(mul(made.take(), 2.0f)));
    });
    for (int i = 0; i < kTensors; ++i) used.take().backward();
    makes.join();
    uses.join();
  });
}

TEST_CASE("soak: sizes that grow and do not come back, and nothing grows", "[memory]") {
  const LeakGuard guard;
  constexpr i64 kTensors = 3, kLargest = 32 * kMiB;
  soak("sizes", 4 * kTensors * kLargest, [](i64 round) {
    const i64 bytes = i64(double(kLargest) * std::pow(1.05, double(round % 100 - 99)));
    std::vector<Tensor> live;
    for (i64 i = 0; i < kTensors; ++i) live.push_back(zeros({bytes}, {.dtype = DType::u8}));
  });
}
