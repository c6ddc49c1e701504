#include "warptape/dist/captured_call.h"

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/graph/graph_host_work.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist {
namespace {

// The same memory, which is not kept: it is the graph's, or of a tensor that the graph follows.
Tensor borrowed(const Tensor& t) {
  return from_blob(t.impl()->data, {t.numel()}, borrow, {.dtype = t.dtype(), .device = t.device()},
                   {}, Frame{});
}

void record(Device d, const Call& call, std::function<void()> work) {
  if (!wt::detail::record_host_work(d, std::move(work)))
    wt::detail::not_in_a_graph(to_string(call.kind),
                               "graphs of this device run nothing on the host");
}

// What the nodes of one call share.
struct Node {
  Call call;
  Work work;  // of the present replay
};

class InGraph : public Work::Pending {
 public:
  explicit InGraph(std::shared_ptr<Node> n)
      : node_(std::move(n)), device_(node_->call.in.device()) {}
  bool done() override {
    check_place("Work::done");
    wt::detail::not_in_a_graph("Work::done", "a replay does not ask whether a call has finished");
    return false;
  }
  void wait() override {
    check_place("Work::wait");
    if (std::exchange(waited_, true)) return;
    record(device_, node_->call, [n = node_] { std::exchange(n->work, {}).wait(); });
  }

 private:
  static void check_place(const char* what) {
    if (!wt::detail::recording_graph())
      throw UsageError(str("[", what, "] the call was begun inside a graph, which has ended"));
  }
  const std::shared_ptr<Node> node_;
  const Device device_;
  bool waited_ = false;
};

}  // namespace

bool goes_into_graph(const Call& call) {
  if (!wt::detail::recording_graph()) return false;
  if (call.kind == Call::Kind::barrier)
    wt::detail::not_in_a_graph("barrier", "the host waits for the other ranks");
  if (!(call.in.device() == mode.capture->device))
    wt::detail::not_in_a_graph(to_string(call.kind), "its tensor is not on the graph's device");
  return true;
}

Work record_call(Communicator& comm, const Call& call) {
  const auto node = std::make_shared<Node>(Node{call, {}});
  node->call.in = borrowed(call.in);
  node->call.out = call.out.same_as(call.in) ? node->call.in : borrowed(call.out);
  record(call.in.device(), call, [&comm, node] { node->work = comm.start(node->call); });
  return Work(std::make_shared<InGraph>(node));
}

void refuse_wait_in_graph() {
  wt::detail::not_in_a_graph("Work::wait", "the call was begun outside of it");
}

}  // namespace wt::dist
