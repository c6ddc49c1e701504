// What a grid leaves does not depend on how many OS threads run its blocks.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/simt/shared_grids.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::simt;

namespace {

constexpr int kBlocks = 1000;

struct WithThreads {
  explicit WithThreads(int n) { set_num_threads(n); }
  ~WithThreads() { set_num_threads(before); }
  const int before = num_threads();
};

bool is_shared() {
  return std::string(simt_flavour()) == "plain" && simt_options().order == SimtOrder::forward;
}

void wait() { const SimtUnprotect done; }

}  // namespace

// First: a child has the helpers of its own only while this process has none.
TEST_CASE("a helper that has no memory for blocks leaves them to the others") {
  if (!is_shared()) return;
  int status = -1;
  const std::string said = in_child(
      [] {
        set_num_threads(3);
        // All on one processor: who has just been woken there often comes to every task first.
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(::sched_getcpu(), &first);
        ::sched_setaffinity(0, sizeof first, &first);
        constexpr int kRepeats = 50;
        const DeviceArray<unsigned> done{std::vector<unsigned>(kRepeats * kBlocks)};
        test_two_traps(done, 1, kBlocks, kBlocks);          // this thread has what it needs
        parallel(3, 64, [](int, int) { ::usleep(2000); });  // the helpers are there
        std::ifstream statm("/proc/self/statm");
        rlim_t pages = 0;
        statm >> pages;
        const rlimit none{pages * 4096 + (128 << 10), RLIM_INFINITY},
            all_there_is{RLIM_INFINITY, RLIM_INFINITY};
        if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(2);
        for (int k = 0; k < kRepeats; ++k) {
          ::usleep(2000);  // the helpers sleep
          test_two_traps(done + k * kBlocks, kBlocks, kBlocks, kBlocks);
        }
        ::setrlimit(RLIMIT_AS, &all_there_is);
        const std::vector<unsigned> all = done.host();
        if (std::accumulate(all.begin(), all.end(), 0u) != unsigned(kRepeats * kBlocks)) ::_exit(3);
      },
      status);
  CAPTURE(said);
  CHECK(status == 0);
}

TEST_CASE("blocks of a large grid run on several OS threads, where nothing has to be watched") {
  const WithThreads threads(3);
  using Addresses = std::vector<unsigned long long>;
  const DeviceArray<unsigned long long> seen{Addresses(kBlocks)};
  test_os_threads(seen, kBlocks, is_shared() ? 60 : 0);
  const Addresses all = seen.host();
  const std::set<unsigned long long> distinct(all.begin(), all.end());
  CHECK(distinct.count(0) == 0);
  CHECK((distinct.size() > 1) == is_shared());
}

TEST_CASE("atomics of device memory come in the order of blocks, with any number of threads") {
  struct Result {
    std::vector<float> total;
    std::vector<unsigned> order;
    SimtStats stats;
  };
  const auto run = [](int n) {
    const WithThreads threads(n);
    const DeviceArray<float> total(std::vector<float>{0});
    const DeviceArray<unsigned> order(kBlocks), ticket(std::vector<unsigned>{0});
    const SimtStats before = simt_stats();
    test_ordered_atomics(total, order, ticket, kBlocks);
    wait();
    const SimtStats after = simt_stats();
    return Result{total.host(),
                  order.host(),
                  {after.launches - before.launches, after.blocks - before.blocks,
                   after.threads - before.threads, after.switches - before.switches,
                   after.barriers - before.barriers, after.collectives - before.collectives}};
  };
  const Result one = run(1);
  if (simt_options().order == SimtOrder::forward)
    CHECK(std::is_sorted(one.order.begin(), one.order.end()));
  for (const int n : {2, 3, 8}) {
    CAPTURE(n);
    const Result many = run(n);
    CHECK(many.total == one.total);
    CHECK(many.order == one.order);
    CHECK(many.stats.launches == 1);
    CHECK(many.stats.blocks == one.stats.blocks);
    CHECK(many.stats.threads == one.stats.threads);
    CHECK(many.stats.switches == one.stats.switches);
    CHECK(many.stats.barriers == one.stats.barriers);
    CHECK(many.stats.collectives == one.stats.collectives);
  }
}

TEST_CASE("of several blocks that fail the first one is named, with any number of threads") {
  const WithSimt forward(SimtOrder::forward);
  for (const int n : {1, 2, 3, 8}) {
    const WithThreads threads(n);
    for (int repeat = 0; repeat < 20; ++repeat) {
      CAPTURE(n, repeat);
      const DeviceArray<unsigned> done{std::vector<unsigned>(kBlocks)};
      std::string error;
      try {
        test_two_traps(done, kBlocks, 301, 300);
        wait();
      } catch (const KernelError& e) {
        error = e.what();
      }
      CHECK(error.find("of block (300,0,0)") != std::string::npos);
      const std::vector<unsigned> left = done.host();
      CHECK(std::accumulate(left.begin(), left.begin() + 300, 0u) == 300);
      const DeviceArray<unsigned> again{std::vector<unsigned>(kBlocks)};
      test_two_traps(again, 300, 301, 302);  // the device works on
      const std::vector<unsigned> all = again.host();
      CHECK(std::accumulate(all.begin(), all.end(), 0u) == 300);
    }
  }
}
