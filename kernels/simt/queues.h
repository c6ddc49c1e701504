// The queues of the simt device's streams under WT_SIMT_STREAMS=lazy. Internal to kernels/simt/.
//
// Nothing runs until the host waits (or a queue is full); then the streams' next entries run in an
// order drawn from the seed, as events allow, on the OS thread that waits, one at a time. An entry
// owns all that it needs: arguments, lists, bytes of the host. The first error of a kernel drops
// what is queued at that time and is thrown by the next wait, as a CUDA context is lost with its
// queues; the device works on after it.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "warptape/kernels/simt/runtime.h"

namespace wt {
struct GraphBackend;  // core/graph/graph_capture.h
}

namespace wt::simt_runtime {

// -1: WT_SIMT_STREAMS has not been read.
extern std::atomic<int> stream_mode;
int read_stream_mode();
inline bool lazy() {
  int m = stream_mode.load(std::memory_order_relaxed);
  if (m < 0) [[unlikely]]
    m = read_stream_mode();
  return m == int(SimtStreams::lazy);
}

// A point in a stream's work. What waits for it holds it.
struct Mark {
  std::atomic<bool> reached{false};
  std::atomic<long long> ns{0};  // when
};
using MarkRef = std::shared_ptr<Mark>;

void change_stream_mode(SimtStreams mode, uint64_t seed);

// A stream is a pointer to its queue; null is the default one. Queues are never destroyed.
void* new_queue();
void queue_launch(const GridLaunch& g, const SimtOptions& options);
// `to` and `from` are device memory unless `host_to`, `host_from`. Host memory is the caller's
// until the copy ran: a destination reads 0xFF before that, and what the host writes meanwhile is
// reported.
struct Copy {
  void* to;
  const void* from;  // null: zeros
  size_t bytes;
  bool host_to = false, host_from = false;
};
void queue_copy(const Copy& c, void* stream);
void queue_work(std::function<void()> work, void* stream);
MarkRef queue_mark(void* stream);
void queue_wait(void* stream, MarkRef mark);
// The host lets go of a block of the arena, and of host memory (a report if a copy still needs it).
void queue_free(void* block);
void host_memory_ends(const void* begin, size_t bytes);

// The host waits: runs what must run, and throws what went wrong.
void wait_for(const MarkRef& mark);
void wait_for_all();
void wait_quietly();  // for destructors: the next wait throws
// The host asks without waiting. Time passes: an entry or none may run.
bool has_reached(const MarkRef& mark);

// --- graphs (graph.cpp) ---
// While this thread records, its launches and copies within the device go into the graph.
bool recording();
void record(const GridLaunch& g);
void record(const Copy& c, void* stream);
void record_host(std::function<void()> work, void* stream);
extern const GraphBackend simt_graphs;

}  // namespace wt::simt_runtime
