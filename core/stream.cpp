#include "warptape/core/stream.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/machine/steady_ns.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/pinned.h"
#include "warptape/core/profile/transfers.h"
#include "warptape/core/storage.h"
#include "warptape/core/tensor.h"

namespace wt {
namespace {

std::atomic<const StreamBackend*> backends[kNumDeviceKinds] = {};

struct Streams {
  std::mutex mutex;
  std::vector<StreamState*> idle;      // lent to the next Stream of their device
  std::vector<StreamState*> defaults;  // one a device
  std::vector<StreamState*> former{};  // of a backend that went; mode ids may still name them
};
Streams& streams() {
  static Streams* s = new Streams;  // outlives static destructors
  return *s;
}

StreamState* default_state(Device d) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  for (StreamState* p : s.defaults)
    if (p->device == d) return p;
  s.defaults.push_back(new StreamState{d, nullptr});
  return s.defaults.back();
}

StreamState* take_stream(Device d) {
  const StreamBackend* b = stream_backend(d);
  if (!b) return default_state(d);
  {
    Streams& s = streams();
    const std::lock_guard lock(s.mutex);
    for (StreamState*& p : s.idle)
      if (p->device == d) {
        StreamState* found = p;
        std::swap(p, s.idle.back());
        s.idle.pop_back();
        return found;
      }
  }
  auto* made = new StreamState{d, b->make_stream(d)};
  process_slow.fetch_or(kSlowStreams, std::memory_order_relaxed);
  return made;
}

// A mode id may name it for ever, so it is lent out again, never destroyed.
void give_stream(StreamState* p) {
  if (!p->native) return;
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  s.idle.push_back(p);
}

// Events, and streams beside the graph's, have no place in a graph.
void check_graph(const char* what, Device d) {
  if (detail::recording_graph() && d == mode.capture->device) [[unlikely]]
    detail::not_in_a_graph(what, "it orders or asks streams, and a graph has one");
}

}  // namespace

void set_stream_backend(DeviceKind k, const StreamBackend* b) {
  backends[int(k)] = b;
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.idle, [&](StreamState* p) {
    if (p->device.kind != k) return false;
    s.former.push_back(p);
    return true;
  });
}

const StreamBackend* stream_backend(Device d) {
  if (d.is_meta || d.kind == DeviceKind::cpu) return nullptr;
  require_available(d);
  if (!backends[int(d.kind)]) start_device(d.kind);
  const StreamBackend* b = backends[int(d.kind)];
  return b == &kNoQueues ? nullptr : b;
}

// --- Event ---
Event::~Event() {
  const StreamBackend* b = backends[int(device_.kind)];
  if (native_ && b && b->give_event) b->give_event(device_, native_, timing_);
}

void Event::swap(Event& o) noexcept {
  std::swap(device_, o.device_);
  std::swap(timing_, o.timing_);
  std::swap(native_, o.native_);
  std::swap(host_ns_, o.host_ns_);
}

void Event::record() { record_on(detail::native_stream(device_)); }

void Event::record_on(void* stream) {
  check_graph("Event::record", device_);
  const StreamBackend* b = stream_backend(device_);
  if (!b) {
    host_ns_ = detail::steady_ns();
    return;
  }
  if (!native_) native_ = b->take_event(device_, timing_);
  b->record(device_, native_, stream);
}

bool Event::done() const {
  check_graph("Event::done", device_);
  return !native_ || stream_backend(device_)->event_done(device_, native_);
}

void Event::synchronize() const {
  detail::before_wait("Event::synchronize", device_);
  if (!native_) return;
  const profiler::TransferWatch watch(profiler::Transfer::Kind::wait, device_, 0);
  stream_backend(device_)->event_wait(device_, native_);
}

double Event::milliseconds_since(const Event& start) const {
  if (!timing_ || !start.timing_)
    throw UsageError("[Event] times need events made with timing: Event{device, true}");
  if (!(device_ == start.device_))
    throw PlacementError(
        str("[Event] the events are of ", to_string(start.device_), " and ", to_string(device_)));
  const StreamBackend* b = stream_backend(device_);
  if (b ? !native_ || !start.native_ : !host_ns_ || !start.host_ns_)
    throw UsageError("[Event] an event was never recorded");
  if (b) return b->elapsed_ms(device_, start.native_, native_);
  return double(host_ns_ - start.host_ns_) * 1e-6;
}

// --- Stream ---
Stream::Stream(Device d) : state_(take_stream(d), give_stream) {}

Stream Stream::default_of(Device d) { return Stream(default_state(d)); }

Stream Stream::current(Device d) {
  return Stream(mode.stream && mode.stream->device == d ? mode.stream : default_state(d));
}

bool Stream::done() const {
  check_graph("Stream::done", device());
  const StreamBackend* b = stream_backend(device());
  return !b || b->stream_done(device(), native());
}

void Stream::synchronize() const {
  detail::before_wait("Stream::synchronize", device());
  const SyncGuard counted(OnSync::allow);
  if (const StreamBackend* b = stream_backend(device())) {
    const profiler::TransferWatch watch(profiler::Transfer::Kind::wait, device(), 0);
    b->stream_wait(device(), native());
  }
  check_mailbox(device());
}

void Stream::wait(const Event& e) const {
  check_graph("Stream::wait", device());
  const StreamBackend* b = stream_backend(device());
  if (b && e.native())
    b->stream_after(device(), native(), e.native());
  else
    e.synchronize();  // between kinds of devices only the host can wait
}

void Stream::wait(const Stream& o) const {
  check_graph("Stream::wait", device());
  if (*this == o || !stream_backend(o.device())) return;
  Event e(o.device());
  e.record_on(o.native());
  wait(e);
}

StreamScope::StreamScope(const Stream& s)
    : held_(s), before_(mode.stream), native_before_(mode.native_stream), id_before_(mode.id) {
  check_graph("StreamScope", s.device());
  if (!stream_backend(s.device())) return;  // nothing is ever queued there
  mode.stream = s.native() ? s.state_.get() : nullptr;
  mode.native_stream = s.native();
  intern_mode();
}

StreamScope::~StreamScope() {
  mode.stream = before_;
  mode.native_stream = native_before_;
  mode.id = id_before_;
}

// --- internal ---
namespace detail {

void follow_stream(const StreamState* from, const StreamState* to) {
  if (from == to) return;
  const Device d = from ? from->device : to->device;
  const StreamBackend* b = stream_backend(d);
  if (!b) return;
  check_graph("backward", d);
  void* event = b->take_event(d, false);
  b->record(d, event, from ? from->native : nullptr);
  b->stream_after(to ? to->device : d, to ? to->native : nullptr, event);
  b->give_event(d, event, false);  // the wait was queued: the event may be recorded again
}

void follow_stream_quietly(const StreamState* from, const StreamState* to) noexcept {
  try {
    follow_stream(from, to);
  } catch (...) {  // the device failed: the next call that may throw says so
  }
}

std::optional<Device> device_at_work() {
  if (recording_graph()) return {};
  for (int k = 0; k < kNumDeviceKinds; ++k) {
    const StreamBackend* b = backends[k];
    if (!b || !b->stream_done) continue;
    const int count = DeviceKind(k) == DeviceKind::cuda ? cuda::device_count() : 1;
    for (int i = 0; i < count; ++i) {
      const Device d{DeviceKind(k), false, u8(i)};
      if (memory::stats(d).reserved > 0 && !b->stream_done(d, native_stream(d))) return d;
    }
  }
  return {};
}

void prepare_operand(const TensorImpl* p) {
  const Storage* s = p->storage;
  if (mode.capture) note_graph_operand(p);
  if (!s->special() || !s->data) return;
  const Device d = s->device;
  if (d == Device::cpu()) return wait_for_host_access(p);
  const StreamBackend* b = backends[int(d.kind)];
  if (!b || b == &kNoQueues || d.is_meta) return;
  if (mode.stream && !(mode.stream->device == d))
    throw PlacementError(str("[", mode.op ? mode.op->name : "operator", "] the operand is on ",
                             to_string(d), " and the current stream belongs to ",
                             to_string(mode.stream->device)));
  b->use(d, s->data, mode.native_stream);
}

}  // namespace detail
}  // namespace wt
