// Calls that were begun, the model of the links, and the timeline.
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "warptape/tests/dist/on_ranks.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;
using namespace std::chrono_literals;
using What = TimelineEvent::What;

TEST_CASE("a call that was begun runs beside its rank") {
  // Rank 1 comes only after rank 0 has gone on.
  std::atomic<bool> gone_on{false};
  std::vector<Values> got(2);
  bool early = true;
  spawn(2, [&](Communicator& comm) {
    const Tensor x = ones({70000});
    while (comm.rank() == 1 && !gone_on) std::this_thread::yield();
    const Work w = comm.start_all_reduce(x);
    if (comm.rank() == 0) {
      early = w.done();
      gone_on = true;
    }
    w.wait();
    CHECK(w.done());
    w.wait();  // again
    got[size_t(comm.rank())] = values(x.narrow(0, 69999, 1));
  });
  CHECK(!early);
  for (const Values& v : got) CHECK(v == Values{2});
}

TEST_CASE("calls that were begun run in their order") {
  const Algorithm a = GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::chain);
  std::vector<Values> got(4);
  spawn(4,
        [&](Communicator& comm) {
          const Tensor x = full({3}, double(comm.rank() + 1)), y = zeros({12});
          std::vector<Work> works;
          works.push_back(comm.start_broadcast(x, 3));       // 4
          works.push_back(comm.start_all_reduce(x));         // 16
          works.push_back(comm.start_all_gather(y, x));      // 16 ...
          works.push_back(comm.start_reduce_scatter(x, y));  // 64
          if (comm.rank() == 0) works.push_back(comm.start_send(x, 1));
          if (comm.rank() == 1) works.push_back(comm.start_recv(y.narrow(0, 0, 3), 0));
          works.push_back(comm.start_all_reduce(x, ReduceOp::mean));  // 64
          for (const Work& w : works) w.wait();
          got[size_t(comm.rank())] = {x[0].item(), y[0].item(), y[11].item()};
        },
        {.local = {.algorithm = a}});
  CHECK(got[0] == Values{64, 16, 16});
  CHECK(got[1] == Values{64, 64, 16});
}

TEST_CASE("alone, everything is done at once") {
  spawn(1, [](Communicator& comm) {
    const Tensor x = full({3}, 2.0), y = zeros({3});
    CHECK(comm.start_all_reduce(x, ReduceOp::mean).done());
    CHECK(values(x) == Values{2, 2, 2});
    CHECK(comm.start_all_gather(y, x).done());
    CHECK(values(y) == Values{2, 2, 2});
    const Tensor z = zeros({3});
    CHECK(comm.start_reduce_scatter(z, x).done());
    CHECK(values(z) == Values{2, 2, 2});
    CHECK(comm.start_broadcast(x).done());
    comm.barrier();
    comm.abort("enough");
    CHECK(mentions(message_of([&] { comm.barrier(); }), "rank 0 gave up"));
  });
}

namespace {

std::vector<TimelineEvent> timeline_of(int ranks, LocalOptions options, i64 n,
                                       double* seconds = nullptr) {
  options.timeline = std::make_shared<Timeline>();
  const auto begin = std::chrono::steady_clock::now();
  spawn(ranks, [&](Communicator& comm) { comm.all_reduce(ones({n})); }, {.local = options});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (seconds) *seconds = took.count();
  return options.timeline->events();
}

// "0>1: 2 of 200 bytes": the messages on each link, in all.
std::vector<std::string> links_of(const std::vector<TimelineEvent>& events) {
  std::map<std::pair<int, int>, std::pair<i64, i64>> links;
  for (const TimelineEvent& e : events)
    if (e.what == What::send) {
      auto& [count, bytes] = links[{e.rank, e.peer}];
      ++count, bytes += e.bytes;
    }
  std::vector<std::string> out;
  for (const auto& [link, sum] : links)
    out.push_back(str(link.first, ">", link.second, ": ", sum.first, " of ", sum.second));
  return out;
}

}  // namespace

TEST_CASE("the timeline shows the algorithms' messages") {
  using Lines = std::vector<std::string>;
  // 100 f32 in 4 parts of 25, round twice but for one link each.
  CHECK(links_of(timeline_of(4, {.algorithm = Algorithm::ring}, 100)) ==
        Lines{"0>1: 6 of 600", "1>2: 6 of 600", "2>3: 6 of 600", "3>0: 6 of 600"});
  CHECK(links_of(timeline_of(4, {.algorithm = Algorithm::tree}, 100)) ==
        Lines{"0>1: 1 of 400", "0>2: 1 of 400", "1>0: 1 of 400", "2>0: 1 of 400", "2>3: 1 of 400",
              "3>2: 1 of 400"});
  CHECK(links_of(timeline_of(4, {.algorithm = Algorithm::chain}, 100)) ==
        Lines{"0>1: 1 of 400", "1>0: 1 of 400", "1>2: 1 of 400", "2>1: 1 of 400", "2>3: 1 of 400",
              "3>2: 1 of 400"});
  CHECK(links_of(timeline_of(2, {.algorithm = Algorithm::automatic}, 100)) ==
        Lines{"0>1: 1 of 400", "1>0: 1 of 400"});
  CHECK(links_of(timeline_of(3, {.algorithm = Algorithm::ring}, 300000)) ==  // chunks of 65536
        Lines{"0>1: 8 of 1600000", "1>2: 8 of 1600000", "2>0: 8 of 1600000"});
}

TEST_CASE("the timeline has a call and its wait on each rank, and who adds") {
  const auto events = timeline_of(4, {.algorithm = Algorithm::chain}, 100);
  std::map<std::pair<int, What>, int> count;
  for (const TimelineEvent& e : events) {
    ++count[{e.rank, e.what}];
    CHECK(e.kind == Call::Kind::all_reduce);
    CHECK(e.call == 0);
    CHECK(e.begin <= e.end);
    CHECK(e.bytes == 400);
  }
  for (int r = 0; r < 4; ++r) {
    CHECK(count[{r, What::call}] == 1);
    CHECK(count[{r, What::wait}] == 1);
    CHECK(count[{r, What::reduce}] == (r == 0 ? 0 : 1));
  }
}

TEST_CASE("messages take what the model of the links says") {
  // 4 parts of 2 MB over each link, in chunks that follow each other closely: latency once.
  double seconds = 0;
  const auto events = timeline_of(
      3, {.algorithm = Algorithm::ring, .latency = 10ms, .bandwidth = 1e8}, 1500000, &seconds);
  CHECK(seconds >= 0.010 + 4 * 2e6 / 1e8);
  std::map<std::pair<int, int>, i64> free;
  i64 sends = 0;
  for (const TimelineEvent& e : events) {
    if (e.what != What::send) continue;
    ++sends;
    const i64 held = e.bytes * 10;  // ns
    CHECK(e.end - e.begin >= held + 10'000'000 - 1000);
    i64& until = free[{e.rank, e.peer}];
    CHECK(e.begin >= until - 1000);  // one message at a time
    until = e.begin + held;
  }
  CHECK(sends == 3 * 4 * 8);
  // Of a few bytes nothing follows: 4 messages one after another.
  timeline_of(3, {.algorithm = Algorithm::ring, .latency = 10ms}, 3, &seconds);
  CHECK(seconds >= 4 * 0.010);
}
