// Graphs: what a function launches on a device, kept to be launched again as a whole.
//
//   Graph graph{Device::cuda()};
//   Tensor x = zeros({64, 784}, {.device = Device::cuda()}), y;
//   for (int i = 0; i < 2; ++i) graph.warm_up([&] { y = net(x); });
//   graph.capture([&] { y = net(x); });      // recorded, not run
//   x.copy_(batch);
//   graph.replay();                          // one launch: y has the new values
//
// A replay does what the capture's launches did, on the same memory: it calls no operator and no
// function of the user. What the function computed on the host (sizes, branches, numbers) is what
// it was. Inputs are tensors that were there before and stay; results are tensors that the function
// left behind, whose memory is the graph's and which the next replay writes again.
//
// On cuda this is a CUDA graph; simt keeps a list of its launches. The cpu launches nothing.
//
// What a graph cannot hold throws UsageError while it is captured, naming operator and line:
// a wait of the host (item(), to(cpu), operators whose result's shape depends on values), a copy
// from host memory, a random draw whose number the host counts, work on another stream.
// wt::capture() (autograd/capture.h) and TrainStep{.graph = true} are made of this.
#pragma once
#include <memory>
#include <utility>

#include "warptape/core/frame.h"
#include "warptape/core/stream.h"

namespace wt {

namespace detail {
struct GraphState;
struct GraphShared;
struct Capture;
}  // namespace detail

class WT_API Graph {
 public:
  // With a stream of its own, on which it is warmed up, captured and replayed. Throws NotAvailable
  // for the cpu and for devices that cannot be used, PlacementError for meta.
  explicit Graph(Device d);
  // On the stream and in the memory of another graph, for the same work at other shapes: the two
  // never run at once, and a result of one may lie where the other computes. Results that are to
  // survive must be held as tensors.
  explicit Graph(const Graph& other, std::in_place_t);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  Device device() const;
  const Stream& stream() const;
  bool captured() const;
  i64 size() const;  // launches, copies and fills

  // Runs `f` on the graph's stream; all memory that it takes on the device comes from the graph's
  // own, where the capture finds it again. Do so at least once before capture(), and once before
  // that without a graph where `f` has never run: what is made at a first use (plans, libraries'
  // workspace, first uses of kernels) must be there.
  template <class F>
  decltype(auto) warm_up(F&& f) {
    const Phase phase(*this, false);
    return std::forward<F>(f)();
  }
  // Records what `f` launches. Throws what `f` throws, UsageError for what a graph cannot hold
  // (also if `f` swallowed it); then nothing is captured, and nothing has run.
  template <class F>
  void capture(F&& f) {
    Phase phase(*this, true);
    try {
      std::forward<F>(f)();
    } catch (...) {
      phase.failed();
      throw;
    }
    phase.keep();
  }
  // Queues the work behind what is queued on the current stream, which goes on behind it. The
  // versions of the tensors that the graph writes go up. Throws UsageError where nothing was
  // captured, DeviceError.
  void replay(Frame at = Frame::here()) const;
  // Whether each tensor from outside that the graph reads or writes still lies where it lay. One
  // that has moved (Module::to, a new optimizer) is not what a replay would read.
  bool is_current() const;
  i64 memory_bytes() const;  // of its own memory, which graphs on its stream share
  // Why the last capture failed, if a graph cannot hold what its function did: "item waits for the
  // device at net.cpp:57"; empty otherwise.
  const std::string& broken() const;
  // It was memory: another warm_up() makes room for what the last one did not need.
  bool short_of_memory() const;

 private:
  class WT_API Phase {
   public:
    Phase(Graph& g, bool recording);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;
    void failed();  // in a handler
    void keep();

   private:
    void leave() noexcept;
    detail::GraphState& g_;
    std::unique_ptr<detail::Capture> capture_;
    std::unique_ptr<StreamScope> on_;
    Stream outer_;
    bool recording_, open_ = false;
  };

  std::unique_ptr<detail::GraphState> state_;
};

}  // namespace wt
