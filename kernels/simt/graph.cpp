// Graphs on simt: the list of a capture's launches, copies and fills, run in their order each time.
#include <functional>
#include <utility>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/kernels/simt/queued_work.h"

namespace wt {
namespace simt_runtime {
namespace {

struct Recorded {
  std::vector<std::function<void()>> work;
  bool of_host = false;  // some of it is the host's own, which may wait for other threads
  void run() const {
    for (const auto& w : work) w();
  }
};
using RecordedRef = std::shared_ptr<Recorded>;

struct Recording {
  RecordedRef list;  // null: this thread records nothing
  void* stream = nullptr;
};
thread_local Recording under_way;

// The library keeps a capture on its stream; what goes elsewhere would not be replayed in order.
void check_stream(void* stream) {
  if (stream != under_way.stream)
    throw InternalError("simt: work on another stream than the one that is captured");
}

RecordedRef& list_of(void* graph) { return *static_cast<RecordedRef*>(graph); }

void launch_graph(Device, void* graph, void* stream) {
  const RecordedRef& list = list_of(graph);
  // A queue's work may run on any thread that waits, which may be the one that the host's
  // work waits for: that runs here, and what was queued before it too.
  if (!lazy()) return list->run();
  if (!list->of_host) return queue_work([list] { list->run(); }, stream);
  wait_for(queue_mark(stream));
  list->run();
}

}  // namespace

bool recording() { return under_way.list != nullptr; }

void record(const GridLaunch& g) {
  check_stream(g.stream);
  under_way.list->work.emplace_back(
      [launch = std::make_shared<const QueuedLaunch>(g)] { launch->run(simt_options()); });
}

void record(const Copy& c, void* stream) {
  check_stream(stream);
  under_way.list->work.emplace_back(
      [copy = std::make_shared<const QueuedCopy>(c)] { copy->run(); });
}

void record_host(std::function<void()> work, void* stream) {
  check_stream(stream);
  under_way.list->of_host = true;
  under_way.list->work.push_back(std::move(work));
}

const GraphBackend simt_graphs = {
    .begin =
        [](Device, void* stream) {
          under_way = {std::make_shared<Recorded>(), stream};
        },
    .end = [](Device, void*) -> void* {
      return new RecordedRef(std::exchange(under_way, {}).list);
    },
    .abandon =
        [](Device, void*) noexcept {
          under_way = {};
          return true;
        },
    .launch = launch_graph,
    .destroy = [](Device, void* graph) noexcept { delete &list_of(graph); },
    .size = [](void* graph) { return i64(list_of(graph)->work.size()); },
    .recorded =
        [](Device, void*) noexcept {
          return under_way.list ? i64(under_way.list->work.size()) : i64{-1};
        },
};

}  // namespace simt_runtime
}  // namespace wt
