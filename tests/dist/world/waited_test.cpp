// Who makes the others wait.
#include <atomic>
#include <chrono>
#include <thread>

#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/dist/expect.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

TEST_CASE("DataParallel::waited: the slowest rank waits least, the others for it", "[dist]") {
  constexpr int kSteps = 3;
  constexpr auto kDelay = std::chrono::milliseconds(100);
  std::vector<double> waited(3);
  std::atomic<int> there{0};
  Expect expect;
  all_ranks(3, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c};
    expect(ddp.waited() == 0, "before the first step");
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (int i = 0; i < kSteps; ++i)
      step(Mlp::data(8, i), [&](const Batch& b) {
        const Loss loss = squares(net, b);
        ++there;
        if (c.rank() != 1) return loss;
        while (there < 3 * (i + 1)) std::this_thread::yield();  // the others wait from here on
        std::this_thread::sleep_for(kDelay);
        return loss;
      });
    waited[size_t(c.rank())] = ddp.waited();
  });
  expect.report();
  const double delay = std::chrono::duration<double>(kSteps * kDelay).count();
  CAPTURE(waited);
  CHECK(waited[0] > delay / 2);
  CHECK(waited[2] > delay / 2);
  CHECK(waited[1] < delay / 2);
}
