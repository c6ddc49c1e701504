// Streams: queues of device work. What is queued on one stream runs in order; streams run beside
// each other unless an Event says otherwise.
//
//   Stream side{Device::cuda()};
//   {
//     const StreamScope on(side);
//     y = f(x);                       // queued on `side`
//   }
//   Stream::current(x.device()).wait(side);
//   z = g(y);                         // starts after f
//
// Memory is safe across streams: a tensor that another stream used is not handed out again before
// that stream is done with it. The order of the work is the user's: read on one stream what another
// one writes only after a wait. backward() runs each operator on its forward's stream and keeps the
// order by itself.
//
// cpu has streams too, on which everything has finished when it is queued; so has simt, unless
// WT_SIMT_STREAMS=lazy makes its work run late (docs/simt.md).
#pragma once
#include <memory>
#include <optional>

#include "warptape/core/device.h"
#include "warptape/core/mode.h"

namespace wt {

// Never freed: recorded operators remember their stream.
struct StreamState {
  Device device;
  void* native = nullptr;  // a cudaStream_t; null: the device's default stream
};

// A point in a stream's work. Throws NotAvailable where the device cannot be used, DeviceError when
// the hardware failed.
class WT_API Event {
 public:
  // timing: milliseconds_since() is wanted; recording then costs more.
  explicit Event(Device d, bool timing = false) : device_(d), timing_(timing) {}
  Event(Event&& o) noexcept { swap(o); }
  Event& operator=(Event&& o) noexcept {
    swap(o);
    return *this;
  }
  ~Event();

  Device device() const { return device_; }
  // Marks the end of what is now queued on the device's current stream. Again: moves the mark.
  void record();
  // The work before the mark has finished (true when nothing was recorded).
  bool done() const;
  // Waits for it.
  void synchronize() const;
  // Between the marks of `start` and of this event, both recorded with timing and done. Throws
  // UsageError otherwise.
  double milliseconds_since(const Event& start) const;
  void* native() const { return native_; }

 private:
  friend class Stream;
  void record_on(void* stream);
  void swap(Event& o) noexcept;

  Device device_;
  bool timing_ = false;
  void* native_ = nullptr;  // made by the first record()
  i64 host_ns_ = 0;         // cpu and simt: when it was recorded
};

class WT_API Stream {
 public:
  // A stream beside the default one. Throws NotAvailable, PlacementError, DeviceError.
  explicit Stream(Device d);
  static Stream default_of(Device d);
  static Stream current(Device d);

  Device device() const { return state_->device; }
  void* native() const { return state_->native; }
  // Everything queued has finished.
  bool done() const;
  // Waits for it; a natural wait of the host: throws what kernels reported meanwhile (IndexError),
  // and DeviceError.
  void synchronize() const;
  // What is queued here from now on starts after the event, or after what is queued on `o` now. The
  // host does not wait.
  void wait(const Event& e) const;
  void wait(const Stream& o) const;
  friend bool operator==(const Stream& a, const Stream& b) {
    return a.device() == b.device() && a.native() == b.native();
  }

 private:
  friend class StreamScope;
  explicit Stream(StreamState* immortal) : state_(std::shared_ptr<void>{}, immortal) {}
  std::shared_ptr<StreamState> state_;  // the last handle lends the stream to the next Stream
};

// Work of this thread for the stream's device goes to it in the scope.
class WT_GUARD StreamScope {
 public:
  [[nodiscard]] explicit StreamScope(const Stream& s);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream held_;
  StreamState* before_;
  void* native_before_;
  u32 id_before_;
};

// --- internal ---
struct TensorImpl;

// What a device with real streams offers; set by its runtime. All but give_* may throw.
struct StreamBackend {
  void* (*make_stream)(Device);
  bool (*stream_done)(Device, void* stream);
  void (*stream_wait)(Device, void* stream);  // the host waits
  void (*stream_after)(Device, void* stream, void* event);
  void* (*take_event)(Device, bool timing);
  void (*give_event)(Device, void* event, bool timing);
  void (*record)(Device, void* event, void* stream);
  bool (*event_done)(Device, void* event);
  void (*event_wait)(Device, void* event);
  double (*elapsed_ms)(Device, void* from, void* to);
  // `stream` reads or writes the block: it is not handed out again before that is done. Null block:
  // only makes the device the thread's current one.
  void (*use)(Device, const void* block, void* stream);
  // Page-locked host memory (null: none left), and copies that do not wait.
  void* (*take_host)(i64 bytes);
  void (*give_host)(void* block);
  void (*to_host)(void* host, Device, const void* device, i64 bytes, void* stream);
  void (*from_host)(void* device, Device, const void* host, i64 bytes, void* stream);
};
// Of a started device whose work has finished when it is queued.
inline constexpr StreamBackend kNoQueues{};
// Forgets the streams of the backend before. Null: the device has to be started again.
void set_stream_backend(DeviceKind k, const StreamBackend* b);
// Null where work has finished when it is queued: the host knows what it did. Starts the device's
// runtime at its first use.
const StreamBackend* stream_backend(Device d);

namespace detail {
// The stream that this thread's work for `d` goes to.
inline void* native_stream(Device d) {
  return mode.stream && mode.stream->device == d ? mode.native_stream : nullptr;
}
// What is queued on `to` from now on starts after what is queued on `from`. Null: the default
// stream of the other one's device. Null and null: nothing to do.
void follow_stream(const StreamState* from, const StreamState* to);
void follow_stream_quietly(const StreamState* from, const StreamState* to) noexcept;
// A device whose current stream (of this thread) has work that has not finished. Asks only devices
// that have memory of tensors; nothing is asked while a graph is recorded.
std::optional<Device> device_at_work();
// Called for each operand while process_slow is set: waits for copies that touch its host memory,
// tells the allocator which stream uses it. Throws PlacementError when the current stream belongs
// to another device.
void prepare_operand(const TensorImpl* p);
}  // namespace detail

}  // namespace wt
