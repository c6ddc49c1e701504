// Graphs with calls of NCCL's in them: their replays' clock, failures, and the calls of a capture.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "warptape/core/graph.h"
#include "warptape/dist/nccl.h"
#include "warptape/tests/dist/nccl/nccl_world.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;
using std::chrono::milliseconds;

namespace {

// A graph of one sum.
struct Captured {
  Captured(Communicator& c, const Tensor& t) : graph(t.device()) {
    const auto step = [&] { c.all_reduce(t); };
    graph.warm_up(step);
    graph.capture(step);
    c.barrier();
  }
  Graph graph;
};

// The journal's names of streams and events, which come in the order of their making.
std::string renamed(const std::string& line, const std::vector<std::string>& journal) {
  std::vector<std::string> events, streams;
  const auto words_of = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto index = [](std::vector<std::string>& all, const std::string& w) {
    const auto at = std::find(all.begin(), all.end(), w);
    if (at != all.end()) return size_t(at - all.begin());
    all.push_back(w);
    return all.size() - 1;
  };
  const auto name = [&](const std::string& w) -> std::string {
    if (w.size() < 2 || !std::isdigit(static_cast<unsigned char>(w[1]))) return w;
    if (w[0] == 'e') return std::string(1, char('a' + index(events, w)));
    return w[0] == 's' ? (index(streams, w) == 0 ? "graph" : "side") : w;
  };
  for (const std::string& l : journal)
    for (const std::string& w : words_of(l)) name(w);
  std::string text;
  for (const std::string& w : words_of(line)) text += (text.empty() ? "" : " ") + name(w);
  return text;
}

void wait_for_failure(Communicator& c) {
  while (!c.failed()) std::this_thread::yield();
  c.barrier();
}

}  // namespace

TEST_CASE("nccl graph: a rank that does not replay is a PeerFailure on all") {
  NcclWorld w;
  const auto ended = w.run(3, [&](Communicator& c) {
    const Tensor t = on_device(c, {1, 2});
    const Captured x(c, t);
    c.set_deadline(milliseconds(150));
    if (c.rank() != 1) c.replay([&] { x.graph.replay(); });
    wait_for_failure(c);
  });
  for (const Ended& e : ended) {
    CHECK(e.kind == "PeerFailure");
    CHECK(mentions(e.text, "a graph's replay has not finished within 0.15 s"));
  }
  CHECK(w.nccl.calls("comm_abort") == 3);
  w.check_clean();
}

TEST_CASE("nccl graph: a replay that waits for a rank which gives up ends, and later ones throw") {
  NcclWorld w;
  std::string later;
  const auto ended = w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {1});
    const Captured x(c, t);
    if (c.rank() == 0) c.replay([&] { x.graph.replay(); });
    c.control().barrier();
    if (c.rank() == 1) return c.abort("lost its disk");
    later = message_of([&] { wait_for_failure(c); });
    c.replay([&] { throw InternalError("it was launched"); });
  });
  CHECK(later == "PeerFailure: rank 1 gave up: lost its disk");
  CHECK(ended[0].text == "PeerFailure: rank 1 gave up: lost its disk");
  CHECK(ended[0].kind == "PeerFailure");
  CHECK(ended[1].kind == "");
  w.check_clean();
}

TEST_CASE("nccl graph: the clock of a replay runs when the device comes to it") {
  NcclWorld w{1};
  ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
  const auto comm =
      nccl_communicator(control, Device::cuda(0), {.always = true, .deadline = milliseconds(30)});
  const Tensor t = on_device(*comm, {1});
  const Captured x(*comm, t);
  std::atomic<bool> stuck{true};
  w.cuda.queue(nullptr, [&] { return FakeCuda::Kernel{[] {}, [&] { return !stuck.load(); }}; });
  comm->replay([&] { x.graph.replay(); });
  std::this_thread::sleep_for(milliseconds(120));  // four deadlines of work of this rank's own
  CHECK_FALSE(comm->failed());
  stuck = false;
  comm->barrier();
  CHECK_FALSE(comm->failed());
}

TEST_CASE("nccl graph: a capture's calls begin side by side, and nothing else is asked") {
  NcclWorld w{1};
  ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
  auto comm = nccl_communicator(control, Device::cuda(0), {.always = true});
  const Tensor a = on_device(*comm, {1, 2, 3}), b = on_device(*comm, {1});
  Graph graph(Device::cuda(0));
  const auto buckets = [&] {
    const Work first = comm->start_all_reduce(a), second = comm->start_all_reduce(b);
    first.wait();
    second.wait();
  };
  graph.warm_up(buckets);
  w.nccl.take_journal();
  graph.capture(buckets);
  const std::vector<std::string> journal = w.nccl.take_journal();
  comm->replay([&] { graph.replay(); });
  comm->barrier();
  comm.reset();
  // Each sum on NCCL's stream after what was queued when it began, and both ends before what
  // follows. The first two lines are the graph's own; no event of a capture is asked.
  std::string text;
  for (size_t i = 2; i < journal.size(); ++i) text += renamed(journal[i], journal) + "\n";
  CHECK(text ==
        "record b graph\n"
        "side after b\n"
        "all_reduce f32 3 sum on side\n"
        "record c side\n"
        "record b graph\n"
        "side after b\n"
        "all_reduce f32 1 sum on side\n"
        "record d side\n"
        "graph after c\n"
        "graph after d\n");
  w.check_clean();
}
