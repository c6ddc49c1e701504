// The simt device's memory, copies, streams and events, connected to the core.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/graph/graph_host_work.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/pinned.h"
#include "warptape/core/storage.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/simt/access_counter.h"
#include "warptape/kernels/simt/queued_work.h"

namespace wt {
namespace {

using namespace simt_runtime;

void* current_stream(Device d) { return detail::native_stream(d); }

// --- memory ---
// Freed blocks wait for their streams' work: more than this is not left waiting.
constexpr size_t kMostWaiting = size_t(256) << 20;

void* take(Device d, i64 bytes) {
  if (!lazy()) return simt_arena_alloc(size_t(bytes));
  if (arena_waiting_bytes() > kMostWaiting) wait_quietly();
  return arena_alloc(size_t(bytes), current_stream(d));
}

void give(Device, void* block, i64) { lazy() ? queue_free(block) : simt_arena_free(block); }

void trim() {
  if (!lazy()) return;
  wait_quietly();
  trim_pinned();
}

constexpr BlockAllocator kBlocks = {take, give, trim,
                                    [](Device) { return i64(simt_arena_info().committed); }};

// --- copies ---
// True: the copy went into the graph that this thread captures.
bool recorded(const Copy& c, Device d) {
  if (!recording()) return false;
  record(c, current_stream(d));
  return true;
}

void eager_copy(void* to, Device, const void* from, i64 bytes) {
  const ArenaOpen open;
  std::memcpy(to, from, size_t(bytes));
}

constexpr CopyBackend kEagerCopies = {eager_copy, eager_copy,
                                      [](void* to, const void* from, Device d, i64 bytes) {
                                        if (recorded({to, from, size_t(bytes)}, d)) return;
                                        const ArenaOpen open;
                                        std::memmove(to, from, size_t(bytes));
                                      },
                                      [](void* to, Device d, i64 bytes) {
                                        if (recorded({to, nullptr, size_t(bytes)}, d)) return;
                                        const ArenaOpen open;
                                        std::memset(to, 0, size_t(bytes));
                                      },
                                      [](Device) {}};

constexpr CopyBackend kLazyCopies = {[](void* host, Device d, const void* device, i64 bytes) {
                                       staged_to_host(host, d, device, bytes);
                                     },
                                     [](void* device, Device d, const void* host, i64 bytes) {
                                       staged_from_host(device, d, host, bytes);
                                     },
                                     [](void* to, const void* from, Device d, i64 bytes) {
                                       if (recorded({to, from, size_t(bytes)}, d)) return;
                                       queue_copy({to, from, size_t(bytes)}, current_stream(d));
                                     },
                                     [](void* to, Device d, i64 bytes) {
                                       if (recorded({to, nullptr, size_t(bytes)}, d)) return;
                                       queue_copy({to, nullptr, size_t(bytes)}, current_stream(d));
                                     },
                                     [](Device d) { wait_for(queue_mark(current_stream(d))); }};

// --- streams and events ---
struct SimtEvent {
  MarkRef mark;  // of the last record; null: none
};
MarkRef& mark_of(void* event) { return static_cast<SimtEvent*>(event)->mark; }

// Page-locked memory: its size, to tell who still copies when it is given back.
struct HostMemory {
  std::mutex mutex;
  std::map<void*, size_t> bytes;
};
HostMemory& host_memory() {
  static HostMemory& m = *new HostMemory;
  return m;
}

void* take_host(i64 bytes) {
  void* p = std::aligned_alloc(4096, (size_t(bytes) + 4095) / 4096 * 4096);
  if (!p) return nullptr;
  HostMemory& m = host_memory();
  const std::lock_guard lock(m.mutex);
  m.bytes[p] = size_t(bytes);
  return p;
}

void give_host(void* p) {
  {
    HostMemory& m = host_memory();
    const std::lock_guard lock(m.mutex);
    host_memory_ends(p, m.bytes[p]);
    m.bytes.erase(p);
  }
  std::free(p);
}

constexpr StreamBackend kStreams = {
    .make_stream = [](Device) { return new_queue(); },
    .stream_done = [](Device, void* stream) { return has_reached(queue_mark(stream)); },
    .stream_wait = [](Device, void* stream) { wait_for(queue_mark(stream)); },
    .stream_after = [](Device, void* stream, void* event) { queue_wait(stream, mark_of(event)); },
    .take_event = [](Device, bool) { return static_cast<void*>(new SimtEvent); },
    .give_event = [](Device, void* event, bool) { delete static_cast<SimtEvent*>(event); },
    .record = [](Device, void* event, void* stream) { mark_of(event) = queue_mark(stream); },
    .event_done = [](Device, void* event) { return has_reached(mark_of(event)); },
    .event_wait = [](Device, void* event) { wait_for(mark_of(event)); },
    .elapsed_ms =
        [](Device, void* from, void* to) {
          const MarkRef &a = mark_of(from), &b = mark_of(to);
          if (!a || !b || !a->reached || !b->reached)
            throw UsageError("[Event] the event has not happened yet\n  Try synchronize() first");
          return double(b->ns - a->ns) * 1e-6;
        },
    .use =
        [](Device, const void* block, void* stream) {
          if (block) arena_use(block, stream);
        },
    .take_host = take_host,
    .give_host = give_host,
    .to_host =
        [](void* host, Device, const void* device, i64 bytes, void* stream) {
          queue_copy({host, device, size_t(bytes), true, false}, stream);
        },
    .from_host =
        [](void* device, Device, const void* host, i64 bytes, void* stream) {
          queue_copy({device, host, size_t(bytes), false, true}, stream);
        },
};

}  // namespace

void start_simt_device() {
  static std::mutex* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  (void)simt_options();  // a value of the environment that is none is refused before anything else
  const bool queues = lazy();
  (void)arena_base();  // made before other threads hear of it
  set_block_allocator(DeviceKind::simt, &kBlocks);
  set_copy_backend(DeviceKind::simt, queues ? &kLazyCopies : &kEagerCopies);
  set_stream_backend(DeviceKind::simt, queues ? &kStreams : &kNoQueues);
  set_graph_backend(DeviceKind::simt, &simt_graphs);
  profiler::set_access_counter(&access_counter);
  wt::detail::set_graph_host_work(DeviceKind::simt, &record_host);
}

void set_simt_streams(SimtStreams mode, uint64_t seed) {
  if (lazy()) {
    wait_quietly();
    trim_pinned();
  }
  change_stream_mode(mode, seed);
  start_simt_device();
  wait_for(nullptr);  // throws what the work before did wrong
}

}  // namespace wt
