#include "device/stream.h"

#include <map>

#include "device/context.h"

namespace emu {
namespace {

// cuda_runtime_api.h: the streams that are always there.
constexpr u64 kLegacy = 1, kPerThread = 2;
constexpr double kRecordNanoseconds = 500;  // so that no two records are at one time

struct Streams {
  Handles<Stream, 0x51> handles;
  Handles<Event, 0x52> events;
  StreamRef legacy[16];
  std::vector<StreamRef> live[16];
  u64 made = 2;
};
Streams& streams() {
  static Streams* s = new Streams;
  return *s;
}

StreamRef new_stream(int device) {
  Streams& all = streams();
  auto s = std::make_shared<Stream>();
  s->id = all.made++;
  s->device = device;
  s->lane = new_lane();
  all.live[device].push_back(s);
  return s;
}

// A thread's streams go with it; what is queued on them stays.
struct PerThread {
  std::map<int, StreamRef> streams;
};
thread_local PerThread per_thread;

StreamRef per_thread_stream(int device) {
  StreamRef& s = per_thread.streams[device];
  if (!s) {
    s = new_stream(device);
    s->per_thread = true;
    s->handle = reinterpret_cast<void*>(kPerThread);
  }
  return s;
}

}  // namespace

std::string Stream::name() const {
  if (legacy) return "stream 0";
  return (per_thread ? "thread's stream " : "stream ") + std::to_string(id);
}

StreamRef legacy_stream(int device) {
  StreamRef& s = streams().legacy[device];
  if (!s) {
    s = new_stream(device);
    s->legacy = true;
    s->handle = reinterpret_cast<void*>(kLegacy);
  }
  return s;
}

StreamRef find_stream(void* handle) {
  const u64 value = reinterpret_cast<u64>(handle);
  if (value == 0 || value == kLegacy) return legacy_stream(current_device());
  if (value == kPerThread) return per_thread_stream(current_device());
  return streams().handles.find(handle);
}

StreamRef make_stream(int device, bool non_blocking, int priority) {
  StreamRef s = new_stream(device);
  s->non_blocking = non_blocking;
  s->priority = priority;
  s->handle = streams().handles.add(s);
  return s;
}

// What is queued still runs, as on hardware.
void drop_stream(const StreamRef& s) {
  s->destroyed = true;
  streams().handles.remove(s->handle);
}

std::vector<StreamRef> streams_of(int device) {
  std::vector<StreamRef>& live = streams().live[device];
  // Those that are gone and empty order nothing any more, once the host knows.
  std::erase_if(live, [](const StreamRef& s) {
    return (s->destroyed || (s->per_thread && s.use_count() == 1)) &&
           (!s->last || (s->last->done && host_clock()->has(s->lane, s->last->serial)));
  });
  return live;
}

EventRef find_event(void* handle) { return streams().events.find(handle); }
void* make_event(int device, u32 flags) {
  auto e = std::make_shared<Event>();
  e->device = device;
  e->flags = flags;
  return streams().events.add(e);
}
bool drop_event(void* handle) { return streams().events.remove(handle); }

std::vector<OpRef> predecessors(const Stream& s) {
  std::vector<OpRef> before;
  if (s.last) before.push_back(s.last);
  if (s.legacy) {
    for (const StreamRef& other : streams_of(s.device))
      if (!other->non_blocking && !other->legacy && other->last) before.push_back(other->last);
  } else if (!s.non_blocking) {
    const StreamRef& legacy = streams().legacy[s.device];
    if (legacy && legacy->last) before.push_back(legacy->last);
  }
  return before;
}

OpRef enqueue(Stream& s, WorkRef work, std::vector<OpRef> more) {
  auto op = std::make_shared<QueuedOp>();
  op->device = s.device;
  op->lane = s.lane;
  op->stream = s.name();
  op->work = std::move(work);
  std::vector<OpRef> after = predecessors(s);
  after.insert(after.end(), more.begin(), more.end());
  submit(op, std::move(after));
  s.last = op;
  return op;
}

void drain(int device) {
  for (const StreamRef& s : streams_of(device))
    if (s->last) wait_for(s->last);
}

void Mark::run(QueuedOp& op) {
  if (kind == WorkKind::record) op.nanoseconds = kRecordNanoseconds;
}

}  // namespace emu
