// Communicators that fail on purpose.
#include "warptape/dist/fault.h"

#include <cmath>
#include <csignal>
#include <thread>

#include "warptape/tests/dist/on_ranks.h"
#include "warptape/tests/support/child.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;
using namespace std::chrono_literals;
using What = Fault::What;

namespace {

// Four calls on three ranks with these faults: what each rank has after them, and how it ended.
struct Run {
  std::vector<Values> got{3};
  std::vector<RankEnd> ends{3};
};
Run run_with(const std::vector<Fault>& faults, std::chrono::milliseconds deadline = 300s) {
  Run run;
  spawn(3,
        [&](Communicator& comm) {
          const size_t r = size_t(comm.rank());
          try {
            for (int step = 0; step < 4; ++step) {
              comm.at_step(step);
              const Tensor x = full({5}, double(comm.rank()));
              comm.all_reduce(x);
              run.got[r] = values(x);
            }
          } catch (const PeerFailure& e) {
            run.ends[r] = {e.what(), e.reason, e.host, e.rank, e.last_step, e.exit_code()};
          }
        },
        {.local = {.deadline = deadline},
         .wrap = [&](auto local) { return with_faults(std::move(local), faults); }});
  return run;
}

}  // namespace

TEST_CASE("without a fault the wrapper changes nothing") {
  const Run run = run_with({{.what = What::die, .rank = 1, .call = 4}});  // the fifth
  for (const Values& v : run.got) CHECK(v == Values(5, 3));
}

TEST_CASE("a rank that dies by a fault throws RankDied, and others hear of it") {
  std::vector<std::string> others(3);
  std::string text;
  try {
    spawn(3,
          [&](Communicator& comm) {
            try {
              for (int step = 0; step < 4; ++step) {
                comm.at_step(step);
                comm.barrier();
              }
            } catch (const PeerFailure& e) {
              others[size_t(comm.rank())] = e.reason;
              throw;
            }
          },
          {.wrap = [](auto local) {
            return with_faults(std::move(local), {{.what = What::die, .rank = 1, .call = 2}});
          }});
  } catch (const RankDied& e) {
    text = e.what();
  }
  CHECK(mentions(text, "RankDied: [barrier] rank 1 dies at call 2, as it was told to"));
  CHECK(others[1] == "");
  for (const int r : {0, 2})
    CHECK(mentions(others[size_t(r)], "rank 1 gave up at step 2: RankDied: [barrier] rank 1 dies"));
}

TEST_CASE("a rank that hangs by a fault is named by the others, and ends with them") {
  const Run run = run_with({{.what = What::hang, .rank = 2, .call = 3}}, 500ms);
  for (const RankEnd& e : run.ends) {
    CHECK(mentions(e.reason, "rank 2 did not come to all_reduce in time"));
    CHECK(e.rank == 2);
    CHECK(e.step == 3);
  }
}

TEST_CASE("abort ends a hang of a rank's own") {
  auto world = local_world(2);
  const auto comm = with_faults(std::move(world[0]), {{.what = What::hang}});
  std::thread other([&] { comm->abort("enough"); });
  CHECK(mentions(message_of([&] { comm->barrier(); }), "rank 0 gave up"));
  other.join();
  CHECK(comm->failed());
}

TEST_CASE("a call that is dropped leaves the others waiting") {
  const Run run = run_with({{.what = What::drop, .rank = 0, .call = 3}}, 500ms);
  CHECK(run.ends[0].rank == -2);
  CHECK(run.got[0] == Values(5, 0));  // it takes its own for the sum
  for (const int r : {1, 2})
    CHECK(mentions(run.ends[size_t(r)].reason, "rank 0 ended at step 3 while others wait for it"));
}

TEST_CASE("a call that is late changes nothing") {
  const auto begin = std::chrono::steady_clock::now();
  const Run run = run_with({{.what = What::delay, .rank = 1, .call = 1, .time = 60ms}});
  CHECK(std::chrono::steady_clock::now() - begin >= 60ms);
  for (const Values& v : run.got) CHECK(v == Values(5, 3));
}

TEST_CASE("a corrupt call changes one bit of one rank's result") {
  const Run run = run_with({{.what = What::corrupt, .rank = 1, .call = 3}});
  CHECK(run.got[0] == Values(5, 3));
  CHECK(run.got[2] == Values(5, 3));
  const double off = 3 + std::exp2(-22);
  CHECK(run.got[1] == Values{3, 3, off, 3, 3});
}

TEST_CASE("what a corrupt send sends is wrong, what it was given is not") {
  Values sent, got;
  spawn(2,
        [&](Communicator& comm) {
          const Tensor x = ones({3}, {.dtype = DType::i32}), y = zeros_like(x);
          if (comm.rank() == 0) comm.send(x, 1), sent = values(x);
          if (comm.rank() == 1) comm.recv(y, 0), got = values(y);
        },
        {.wrap = [](auto local) {
          return with_faults(std::move(local), {{.what = What::corrupt, .rank = 0}});
        }});
  CHECK(sent == Values{1, 1, 1});
  CHECK(got == Values{1, 0, 1});
}

TEST_CASE("kill ends the process") {
  const int code = in_child([] {
    const auto comm = with_faults(std::move(local_world(1)[0]), {{.what = What::kill}});
    comm->barrier();
    return 0;
  });
  CHECK(code == -SIGKILL);
}
