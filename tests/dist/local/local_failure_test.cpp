// What the others hear of a rank that ends, gives up, hangs or calls something else.
#include <atomic>
#include <chrono>
#include <thread>

#include "warptape/dist/fault.h"
#include "warptape/tests/dist/on_ranks.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;
using namespace std::chrono_literals;

namespace {

// Long enough never to pass where it should not, on any machine.
const LocalOptions kPatient{.deadline = 300s};
constexpr auto kShort = 150ms;

void check_end(const RankEnd& e, int rank, long long step, const std::string& reason) {
  CHECK(e.rank == rank);
  CHECK(e.step == step);
  CHECK(e.exit_code == 7);
  CHECK(!e.host.empty());
  CHECK(mentions(e.reason, reason));
  CHECK(mentions(e.text, e.reason));
}

// Two calls in a row that throw the same failure.
void fails_for_good(Communicator& comm, const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerFailure& first) {
    try {
      comm.barrier();
    } catch (const PeerFailure& second) {
      if (first.reason != second.reason)
        throw PeerFailure(str("first ", first.reason, ", then ", second.reason));
      throw first;
    }
    throw PeerFailure("the second call did not throw");
  }
}

}  // namespace

TEST_CASE("a rank that ends fails those that wait for it, at once") {
  const Algorithm a = GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::chain);
  LocalOptions options = kPatient;
  options.algorithm = a;
  const auto ends = ends_of(4, options, [](Communicator& comm) {
    const Tensor x = ones({1000});
    comm.at_step(811);
    comm.all_reduce(x);
    if (comm.rank() == 2) return;
    comm.at_step(812);
    fails_for_good(comm, [&] { comm.all_reduce(x); });
  });
  for (const int r : {0, 1, 3})
    check_end(ends[size_t(r)], 2, 811,
              "rank 2 ended at step 811 while others wait for it in all_reduce");
  CHECK(ends[2].rank == -2);
  CHECK(mentions(ends[0].text, "PeerFailure: [all_reduce] rank 2 ended at step 811"));
  CHECK(mentions(ends[0].text, "\n  at local_failure_test.cpp:"));
}

TEST_CASE("a rank that ended before its first step says so") {
  const auto ends = ends_of(2, kPatient, [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier();
  });
  check_end(ends[0], 1, -1, "rank 1 ended before its first step");
}

TEST_CASE("abort ends the calls of all ranks with its reason") {
  const auto ends = ends_of(3, kPatient, [](Communicator& comm) {
    comm.at_step(5);
    if (comm.rank() == 1) comm.abort("the disk is full");
    fails_for_good(comm, [&] { comm.barrier(); });
  });
  for (const RankEnd& e : ends) check_end(e, 1, 5, "rank 1 gave up at step 5: the disk is full");
}

TEST_CASE("abort wakes a rank's own wait, from another thread") {
  const auto ends = ends_of(2, kPatient, [](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!comm.failed()) std::this_thread::yield();
      return comm.barrier();
    }
    const Tensor x = ones({2});
    const Work w = comm.start_all_reduce(x);
    std::thread other([&] { comm.abort("interrupted"); });
    try {
      w.wait();
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
  for (const RankEnd& e : ends) check_end(e, 0, -1, "rank 0 gave up before its first step: inter");
}

TEST_CASE("the deadline names the rank that did not come, and where it is") {
  // Rank 2 stands still until it hears of the failure; rank 0 comes last, and is impatient.
  std::atomic<int> begun{0};
  const auto ends = ends_of(4, kPatient, [&](Communicator& comm) {
    const Tensor x = ones({10});
    comm.at_step(811);
    comm.all_reduce(x);
    while (comm.rank() == 2 && !comm.failed()) std::this_thread::yield();
    while (comm.rank() == 0 && begun < 2) std::this_thread::yield();
    comm.at_step(812);
    if (comm.rank() == 0) comm.set_deadline(500ms);
    fails_for_good(comm, [&] {
      const Work w = comm.start_all_reduce(x);
      ++begun;
      w.wait();
    });
  });
  for (const RankEnd& e : ends)
    check_end(e, 2, 811,
              "rank 2 did not come to all_reduce in time: rank 2 is at step 811, others are at "
              "step 812");
}

TEST_CASE("the deadline names all ranks that did not come, and what they wait in") {
  const auto ends = ends_of(3, kPatient, [](Communicator& comm) {
    comm.at_step(3);
    if (comm.rank() == 0) comm.set_deadline(kShort);
    if (comm.rank() == 1) comm.recv(ones({1}), 2);  // which sends nothing
    if (comm.rank() == 2)
      while (!comm.failed()) std::this_thread::yield();
    comm.barrier();
  });
  // Rank 1 may not have begun to wait when the time is over.
  for (const RankEnd& e : ends) {
    CHECK(e.rank == 1);
    CHECK(mentions(e.reason, "ranks 1 and 2 did not come to barrier in time: rank 1 is at step 3"));
    CHECK(mentions(e.reason, "rank 2 is at step 3, rank 0 is at step 3"));
  }
}

TEST_CASE("a receive that nobody sends for ends at the deadline") {
  const auto ends = ends_of(2, {.deadline = kShort}, [](Communicator& comm) {
    comm.at_step(7);
    if (comm.rank() == 0) return comm.recv(ones({3}), 1);
    while (!comm.failed()) std::this_thread::yield();
    comm.barrier();
  });
  for (const RankEnd& e : ends)
    check_end(e, 1, 7,
              "rank 1 sent nothing to rank 0 in time: it is at step 7, rank 0 is at step 7");
}

TEST_CASE("a receive from a rank that ended fails at once, but what it sent before is there") {
  double got = 0;
  const auto ends = ends_of(2, kPatient, [&](Communicator& comm) {
    if (comm.rank() == 1) return comm.send(full({3}, 5.0), 0);
    const Tensor x = zeros({3});
    comm.recv(x, 1);
    got = x[2].item();
    comm.recv(x, 1);
  });
  CHECK(got == 5);
  check_end(ends[0], 1, -1,
            "rank 1 ended before its first step while rank 0 waits for what it sends");
}

TEST_CASE("calls that differ fail on all ranks, which hear what both called") {
  const std::vector<std::pair<std::function<void(Communicator&)>, std::string>> others = {
      {[](Communicator& c) { c.barrier(); }, "rank 1 called barrier"},
      {[](Communicator& c) { c.all_reduce(ones({4})); }, "rank 1 called all_reduce (sum) of 4 f32"},
      {[](Communicator& c) { c.all_reduce(ones({5}), ReduceOp::max); },
       "rank 1 called all_reduce (max) of 5 f32"},
      {[](Communicator& c) { c.all_reduce(ones({5}, {.dtype = f64})); },
       "rank 1 called all_reduce (sum) of 5 f64"},
      {[](Communicator& c) { c.broadcast(ones({5}), 1); },
       "rank 1 called broadcast of 5 f32 from rank 1"},
      {[](Communicator& c) { c.all_gather(ones({15}), ones({5})); },
       "rank 1 called all_gather of 5 f32"}};
  for (const auto& [call, text] : others) {
    const auto ends = ends_of(3, kPatient, [&call = call](Communicator& comm) {
      comm.at_step(20 + comm.rank());
      fails_for_good(comm, [&] {
        if (comm.rank() == 1)
          call(comm);
        else
          comm.all_reduce(ones({5}));
      });
    });
    for (const RankEnd& e : ends)
      check_end(e, 1, 21, text + " at step 21, rank 0 called all_reduce (sum) of 5 f32 at step 20");
  }
}

TEST_CASE("of two ranks that differ, the one that is not rank 0 is named") {
  const auto ends =
      ends_of(2, kPatient, [](Communicator& comm) { comm.broadcast(ones({2}), comm.rank()); });
  for (const RankEnd& e : ends) check_end(e, 1, -1, "rank 1 called broadcast of 2 f32 from rank 1");
}

TEST_CASE("what is received must be what was sent") {
  const auto ends = ends_of(2, kPatient, [](Communicator& comm) {
    if (comm.rank() == 0)
      comm.send(ones({3}), 1);
    else
      comm.recv(ones({3}, {.dtype = f64}), 0);
    comm.barrier();
  });
  for (const RankEnd& e : ends)
    check_end(e, 0, -1, "rank 0 sent 3 f32 before its first step, rank 1 receives 3 f64");
}

TEST_CASE("a failure during an exchange ends it on all ranks, with every algorithm") {
  const Algorithm a = GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::chain);
  // The links would need hours: the abort comes while all are inside.
  const auto ends = ends_of(3, {.algorithm = a, .deadline = 300s, .latency = std::chrono::hours(2)},
                            [](Communicator& comm) {
                              const Tensor x = ones({1000000});
                              const Work w = comm.start_all_reduce(x);
                              if (comm.rank() == 0) comm.abort("enough");
                              w.wait();
                            });
  for (const RankEnd& e : ends) check_end(e, 0, -1, "rank 0 gave up");
}

TEST_CASE("a link that is too slow ends at the deadline") {
  const auto ends = ends_of(2, {.deadline = kShort, .latency = std::chrono::hours(2)},
                            [](Communicator& comm) { comm.all_reduce(ones({10})); });
  for (const RankEnd& e : ends) CHECK(mentions(e.reason, "did not come in time"));
}

TEST_CASE("communicators end with calls under way, and nothing hangs") {
  // Rank 0 begins two calls that nobody comes to, and ends by an exception.
  std::string text;
  try {
    spawn(3,
          [](Communicator& comm) {
            const Tensor x = ones({5});
            if (comm.rank() == 0) {
              comm.start_all_reduce(x);
              comm.start_all_reduce(x);
              throw UsageError("[test] enough");
            }
            while (!comm.failed()) std::this_thread::yield();
          },
          {.local = kPatient});
  } catch (const UsageError& e) {
    text = e.what();
  }
  CHECK(mentions(text, "[test] enough\n  on rank 0"));
}

TEST_CASE("a communicator that is destroyed by an exception does not wait for the others") {
  auto world = local_world(2, kPatient);
  try {
    const auto mine = std::move(world[0]);
    mine->start_broadcast(ones({1}));
    throw std::runtime_error("enough");
  } catch (const std::runtime_error&) {}
  CHECK(mentions(message_of([&] { world[1]->barrier(); }), "an exception ended it"));
}

TEST_CASE("what was begun is carried out when a communicator ends") {
  std::vector<Tensor> x{ones({5}), ones({5})};
  auto world = local_world(2, kPatient);
  std::thread other([&] {
    const auto mine = std::move(world[1]);
    mine->start_all_reduce(x[1]);
  });
  {
    const auto mine = std::move(world[0]);
    mine->start_all_reduce(x[0]);
  }
  other.join();
  for (const Tensor& t : x) CHECK(values(t) == Values(5, 2));
}
