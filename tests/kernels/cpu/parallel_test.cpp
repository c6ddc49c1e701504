// The threads of the cpu's large kernels.
#include "warptape/kernels/cpu/threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("parallel: every task once, whoever is busy") {
  for (int tasks : {0, 1, 2, 100}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
    parallel(4, tasks, [&](int i, int worker) {
      ++runs[size_t(i)];
      if (worker < 0 || worker >= 4) ++runs[size_t(i)];
      parallel(2, 3, [&](int, int inner) {               // inside a task: on the same thread
        if (tasks > 1 && inner != 0) ++runs[size_t(i)];  // (a single task is no job)
      });
    });
    for (const auto& r : runs) CHECK(r == 1);
  }
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) parallel(3, 7, [&](int i, int) { sum += i; });
    });
  for (std::thread& t : callers) t.join();
  CHECK(sum == 3 * 200 * 21);
}
