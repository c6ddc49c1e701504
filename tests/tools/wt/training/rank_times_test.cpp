// A run's steps by rank: own work, and waiting for others.
#include "warptape/tools/wt/training/rank_times.h"

#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/expect.h"

using namespace wt;
using namespace wt::tools;

TEST_CASE("rank times: own work and waiting of the steps behind the first three") {
  StepTimes times;
  CHECK(times.per_step().own == 0);
  for (i64 i = 1; i <= 3; ++i) times.add({.step = i, .total = 10, .others = 9});
  CHECK(times.per_step().own == 0);
  CHECK(times.per_step().waited == 0);
  times.add({.step = 4, .total = 4, .others = 1, .evaluation = 1});
  times.add({.step = 5, .total = 3, .others = 2});
  CHECK(times.per_step().own == 1.5);
  CHECK(times.per_step().waited == 1.5);
}

TEST_CASE("rank times: the slowest rank is named to all") {
  Expect expect;
  dist::spawn(3, [&](dist::Communicator& comm) {
    const StepTimes::Shares mine[] = {
        {.own = 2e-3, .waited = 10e-3}, {.own = 12e-3, .waited = 0}, {.own = 4e-3, .waited = 8e-3}};
    const std::string text = shares_text(gather_shares(comm, mine[comm.rank()]));
    expect(text ==
               "ranks' own work: 2 to 12 ms a step, most by rank 1; 50 % of their time is "
               "waiting for others",
           text);
  });
  expect.report();
}
