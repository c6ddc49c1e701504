// Streams and events: orders between queued operations.
#pragma once
#include "device/handles.h"
#include "device/queue.h"

namespace emu {

struct Capture;

struct Stream {
  u64 id = 0;
  int device = 0, priority = 0;
  bool legacy = false, per_thread = false, non_blocking = false, destroyed = false;
  u32 lane = 0;
  OpRef last;  // null: nothing was ever queued
  void* handle = nullptr;
  std::shared_ptr<Capture> capture;  // null: it is not captured
  std::string name() const;
  u32 flags() const { return non_blocking; }
  bool idle() const { return !last || last->done; }
};
using StreamRef = std::shared_ptr<Stream>;

struct Event {
  int device = 0;
  u32 flags = 0;
  OpRef recorded;  // null: never. A wait takes what is here when it is asked for.
  bool timing_disabled() const { return flags & 2; }
  // Recorded in a stream that was captured: where the graph stood.
  std::shared_ptr<Capture> capture;
  std::vector<u64> capture_nodes;
};
using EventRef = std::shared_ptr<Event>;

// `handle`: what the program gave: null and cudaStreamLegacy, cudaStreamPerThread (of the current
// device), or of a stream. Null: there is no such stream.
StreamRef find_stream(void* handle);
StreamRef make_stream(int device, bool non_blocking, int priority);
void drop_stream(const StreamRef& stream);
StreamRef legacy_stream(int device);
std::vector<StreamRef> streams_of(int device);

EventRef find_event(void* handle);
void* make_event(int device, u32 flags);
bool drop_event(void* handle);

// Queues the work behind what the stream, and the legacy default stream's rules, put before it.
OpRef enqueue(Stream& stream, WorkRef work, std::vector<OpRef> more = {});
// What an operation put on the stream now would have to wait for.
std::vector<OpRef> predecessors(const Stream& stream);
// Waits for all that was queued on the device.
void drain(int device);

// Work that only orders: a recorded event, the wait for one, the ends of a graph.
struct Mark : Work {
  Mark(WorkKind kind, std::string what) : Work(kind), text(std::move(what)) {}
  void run(QueuedOp& op) override;
  bool runs_on_lost_device() const override { return true; }
  std::string name() const override { return text; }
  std::string text;
};

}  // namespace emu
