#include "warptape/core/graph.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>

#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/graph/graph_kernels.h"
#include "warptape/core/graph/graph_memory.h"
#include "warptape/core/in.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/storage.h"

namespace wt {
namespace {

std::atomic<const GraphBackend*> graph_backends[kNumDeviceKinds] = {};

// Throws NotAvailable where there are no graphs.
const GraphBackend& backend_of(Device d) {
  if (d.is_meta) throw PlacementError("[Graph] nothing runs on a meta device");
  if (d.kind == DeviceKind::cpu)
    throw NotAvailable("[Graph] the cpu launches nothing that a graph could keep\n  Try cuda");
  (void)stream_backend(d);  // starts the device
  const GraphBackend* b = graph_backends[int(d.kind)];
  if (!b) throw NotAvailable(str("[Graph] ", device_kind_name(d.kind), " has no graphs"));
  return *b;
}

}  // namespace

void set_graph_backend(DeviceKind k, const GraphBackend* b) { graph_backends[int(k)] = b; }

namespace detail {

// What graphs on one stream have in common.
struct GraphShared {
  explicit GraphShared(Device d)
      : backend(backend_of(d)), device(d), stream(d), memory(std::make_shared<GraphMemory>(d)) {}
  const GraphBackend& backend;
  Device device;
  Stream stream;
  std::shared_ptr<GraphMemory> memory;
};

struct GraphState {
  explicit GraphState(std::shared_ptr<GraphShared> s) : shared(std::move(s)) {}
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  ~GraphState() { forget(); }

  void forget() noexcept {
    if (handle) shared->backend.destroy(shared->device, std::exchange(handle, nullptr));
    for (Storage* s : storages) release(s);
    storages.clear();
    outside.clear();
    written.clear();
    kernels.reset();
  }

  std::shared_ptr<GraphShared> shared;
  void* handle = nullptr;
  std::vector<OutsideTensor> outside;
  std::vector<Storage*> storages;
  std::vector<size_t> written;                  // of `outside`
  std::shared_ptr<const GraphKernels> kernels;  // null: not known
  std::string broken;
  bool short_of_memory = false;
};

namespace {
// How many threads capture or warm up: kSlowCapture while there are any.
std::atomic<int> captures_open{0};

void open_capture(Capture* c) {
  if (captures_open.fetch_add(1) == 0) process_slow.fetch_or(kSlowCapture);
  mode.capture = c;
}
// One that opens at this moment sets the bit anew.
void close_capture() {
  mode.capture = nullptr;
  if (captures_open.fetch_sub(1) != 1) return;
  process_slow.fetch_and(~u32(kSlowCapture));
  if (captures_open.load() != 0) process_slow.fetch_or(kSlowCapture);
}
}  // namespace

// A replay for those who watch: a launch like any other.
class ReplayRange {
 public:
  ReplayRange(const GraphState& g, void* stream) {
    if (!(process_slow.load(std::memory_order_relaxed) & kSlowObserved)) return;
    profiler::follow_observers();
    range_.emplace(profiler::Range{.kind = profiler::Kind::kernel,
                                   .name = "graph",
                                   .variant = nullptr,
                                   .op = nullptr,
                                   .frame = mode.frame,
                                   .mode_id = mode.id,
                                   .device = g.shared->device,
                                   .stream = stream,
                                   .graph = &g.kernels});
  }

 private:
  std::optional<profiler::RangeScope> range_{};
};

AmbientKey AmbientKey::now() {
  constexpr u32 kBits = kSlowAutocast | kSlowInference | kSlowOverride | kSlowSaving;
  return {mode.grad,          mode.determinism,  mode.save,     mode.autocast_dtype,
          matmul_precision(), mode.slow & kBits, mode.overrides};
}

void not_in_a_graph(const char* what, const char* why, Frame at) {
  if (!recording_graph()) return;
  Capture& c = *mode.capture;
  if (!at && mode.operand) at = mode.operand->frame();
  const std::string text =
      str("[", mode.op ? mode.op->name : what, "] a graph cannot hold this: ", why,
          at || mode.frame ? "\n  at " + describe_place(at) : "");
  if (c.broken.empty()) c.broken = text;
  throw UsageError(text);
}

void random_not_in_a_graph(Device d, Frame at) {
  if (recording_graph() && d == mode.capture->device)
    not_in_a_graph("random", "the host counts its draws, and a replay would repeat this one", at);
}

void note_graph_operand(const TensorImpl* p) {
  Capture* c = mode.capture;
  if (!c || !c->recording || !c->memory || !(device_of(p) == c->device)) return;
  Storage* s = p->storage;
  if (!s->data || c->memory->owns(s->data)) return;
  if (p->flags & kIsView) {  // a handle would be a live view of somebody's parameter
    if (std::find(c->storages.begin(), c->storages.end(), s) != c->storages.end()) return;
    retain(s);
    c->storages.push_back(s);
    return;
  }
  for (const OutsideTensor& o : c->outside)
    if (o.tensor.impl() == p) return;
  c->outside.push_back({Tensor(retained(const_cast<TensorImpl*>(p))), p->data, p->cell->version});
}

bool take_from_graph(Device d, i64 bytes, void*& data) {
  Capture& c = *mode.capture;
  if (!c.memory || !(d == c.device)) return false;
  data = c.memory->take(bytes, !c.recording);
  if (data || !c.recording) return true;
  c.short_of_memory = true;
  not_in_a_graph("allocation", "it needs more memory than its warm-up did");
  return true;
}

bool give_to_graph(Device d, void* data, i64 bytes) noexcept {
  if (graph_blocks.load(std::memory_order_relaxed) && GraphMemory::give(data)) return true;
  if (!recording_graph() || !mode.capture->memory || !(mode.capture->device == d)) return false;
  mode.capture->given.emplace_back(data, bytes);  // its allocator may ask the device
  return true;
}

}  // namespace detail

using detail::Capture;
using detail::GraphShared;
using detail::GraphState;

Graph::Graph(Device d) : state_(std::make_unique<GraphState>(std::make_shared<GraphShared>(d))) {}
Graph::Graph(const Graph& other, std::in_place_t)
    : state_(std::make_unique<GraphState>(other.state_->shared)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Device Graph::device() const { return state_->shared->device; }
const Stream& Graph::stream() const { return state_->shared->stream; }
bool Graph::captured() const { return state_->handle != nullptr; }
i64 Graph::size() const {
  return state_->handle ? state_->shared->backend.size(state_->handle) : 0;
}
i64 Graph::memory_bytes() const { return state_->shared->memory->bytes(); }
const std::string& Graph::broken() const { return state_->broken; }
bool Graph::short_of_memory() const { return state_->short_of_memory; }

bool Graph::is_current() const {
  const auto stays = [](const detail::OutsideTensor& o) { return o.tensor.impl()->data == o.data; };
  return state_->handle && std::all_of(state_->outside.begin(), state_->outside.end(), stays);
}

void Graph::replay(Frame at) const {
  GraphState& g = *state_;
  const FrameScope frame(at);
  if (!g.handle) throw UsageError("[Graph] nothing was captured\n  Try capture() first");
  detail::not_in_a_graph("Graph::replay", "another graph is replayed", at);
  const Stream outer = Stream::current(device());
  const Stream& own = g.shared->stream;
  own.wait(outer);
  {
    const detail::ReplayRange range(g, own.native());
    g.shared->backend.launch(device(), g.handle, own.native());
  }
  outer.wait(own);
  for (const size_t i : g.written) g.outside[i].tensor.impl()->cell->wrote(mode.frame);
}

// --- a warm-up or a capture ---

Graph::Phase::Phase(Graph& g, bool recording)
    : g_(*g.state_), outer_(Stream::current(g.device())), recording_(recording) {
  const GraphShared& s = *g_.shared;
  if (mode.capture)
    throw UsageError("[Graph] a capture inside another one: a thread can have one at a time");
  (void)mailbox_of(s.device);  // a first use waits
  s.stream.wait(outer_);
  on_ = std::make_unique<StreamScope>(s.stream);
  capture_ =
      std::make_unique<Capture>(Capture{s.device, s.stream.native(), s.memory.get(), recording});
  g_.broken.clear();
  g_.short_of_memory = false;
  if (recording) {
    g_.forget();
    s.backend.begin(s.device, s.stream.native());
    open_ = true;
  }
  detail::open_capture(capture_.get());
  if (recording) detail::note_kernels(*capture_, s.backend);
}

Graph::Phase::~Phase() { leave(); }

void Graph::Phase::leave() noexcept {
  if (!capture_) return;
  detail::note_kernels_no_more(*capture_);
  detail::close_capture();
  const GraphShared& s = *g_.shared;
  if (open_) (void)s.backend.abandon(s.device, s.stream.native());
  for (const auto& [data, bytes] : capture_->given)
    detail::give_device_block(s.device, data, bytes);
  for (Storage* held : capture_->storages) release(held);
  capture_.reset();
  on_.reset();
  try {
    if (!recording_) outer_.wait(s.stream);
  } catch (...) {  // the device failed: the next call that may throw says so
  }
}

// While an exception is handled. One of the device's own, which works on, is a call that a capture
// forbids.
void Graph::Phase::failed() {
  const GraphShared& s = *g_.shared;
  const bool works = !open_ || s.backend.abandon(s.device, s.stream.native());
  open_ = false;
  g_.broken = capture_->broken;
  g_.short_of_memory = capture_->short_of_memory;
  if (!works || !g_.broken.empty()) return;
  try {
    throw;
  } catch (const DeviceError& e) {
    g_.broken = e.what();
  } catch (...) {}
}

void Graph::Phase::keep() {
  const GraphShared& s = *g_.shared;
  if (!capture_->broken.empty()) {  // f has swallowed it
    g_.broken = capture_->broken;
    g_.short_of_memory = capture_->short_of_memory;
    throw UsageError(g_.broken);
  }
  open_ = false;
  try {
    g_.handle = s.backend.end(s.device, s.stream.native());
  } catch (const DeviceError& e) {
    g_.broken = e.what();
    throw;
  }
  if (capture_->notes) {
    capture_->notes->kernels.nodes = s.backend.size(g_.handle);
    g_.kernels = {capture_->notes, &capture_->notes->kernels};
  }
  g_.outside = std::move(capture_->outside);
  g_.storages.swap(capture_->storages);
  for (size_t i = 0; i < g_.outside.size(); ++i)
    if (g_.outside[i].tensor.version() != g_.outside[i].version) g_.written.push_back(i);
}

}  // namespace wt
