// The cuda device's memory, copies, streams and events, connected to the core.
#include <pthread.h>

#include <cstdlib>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/pinned.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/core/storage.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/kernels/cuda/state.h"

namespace wt {

extern bool launches_wait;  // kernels/device/launch.cpp

namespace {

using detail::api;
using detail::cuda_state;

CudaPool& pool(Device d) { return *cuda_state().devices[d.index].pool; }

void* current_stream(Device d) { return detail::native_stream(d); }

// --- memory ---
void* take(Device d, i64 bytes) {
  require_available(d);  // the index: another cuda device may have been started before
  enter_cuda(d.index);
  return pool(d).take(bytes, current_stream(d));
}

// Runs in destructors: nothing throws. After an error nobody uses the block any more.
void give(Device d, void* block, i64) {
  if (detail::entered_device != d.index)
    detail::entered_device = api().set_device(d.index) == kCudaSuccess ? d.index : -1;
  pool(d).give(block);
}

void trim() {
  detail::CudaState& s = cuda_state();
  for (int i = 0; i < s.count; ++i) {
    if (s.devices[i].pool->stats().reserved == 0) continue;
    enter_cuda(i);
    s.devices[i].pool->trim();
  }
  trim_pinned();
}

i64 reserved(Device d) { return d.index < cuda_state().count ? pool(d).stats().reserved : 0; }

constexpr BlockAllocator kBlocks = {take, give, trim, reserved};

// --- copies ---
// A copy's or fill's stream uses what it touches, whoever asked for it.
void note_use(Device d, const void* block, void* stream) {
  if (process_slow.load(std::memory_order_relaxed) & kSlowStreams) pool(d).use(block, stream);
}

void copy_queued(void* to, const void* from, Device d, i64 bytes, CudaCopy kind, void* stream) {
  enter_cuda(d.index);
  if (kind != CudaCopy::to_host) note_use(d, to, stream);
  if (kind != CudaCopy::to_device) note_use(d, from, stream);
  cuda_check(api().copy(to, from, size_t(bytes), kind, stream), "cudaMemcpyAsync", d.index);
}

constexpr CopyBackend kCopies = {
    [](void* host, Device d, const void* device, i64 bytes) {
      enter_cuda(d.index);
      staged_to_host(host, d, device, bytes);
    },
    [](void* device, Device d, const void* host, i64 bytes) {
      enter_cuda(d.index);
      staged_from_host(device, d, host, bytes);
    },
    [](void* to, const void* from, Device d, i64 bytes) {
      copy_queued(to, from, d, bytes, CudaCopy::within, current_stream(d));
    },
    [](void* to, Device d, i64 bytes) {
      enter_cuda(d.index);
      note_use(d, to, current_stream(d));
      cuda_check(api().fill(to, 0, size_t(bytes), current_stream(d)), "cudaMemsetAsync", d.index);
    },
    [](Device d) {
      enter_cuda(d.index);
      cuda_check(api().wait_stream(current_stream(d)), "cudaStreamSynchronize", d.index);
    }};

// --- streams and events ---
void* make_stream(Device d) {
  enter_cuda(d.index);
  void* s = nullptr;
  cuda_check(api().make_stream(&s), "cudaStreamCreateWithFlags", d.index);
  return s;
}

// cudaSuccess or cudaErrorNotReady, which is no error.
bool finished(int code, const char* call, Device d) {
  if (code == kCudaNotReady) {
    api().last_error();
    return false;
  }
  cuda_check(code, call, d.index);
  return true;
}

void* take_event(Device d, bool timing) {
  detail::CudaState& s = cuda_state();
  {
    const std::lock_guard lock(s.mutex);
    std::vector<void*>& idle = s.devices[d.index].events[timing];
    if (!idle.empty()) {
      void* e = idle.back();
      idle.pop_back();
      return e;
    }
  }
  enter_cuda(d.index);
  void* e = nullptr;
  cuda_check(api().make_event(&e, timing), "cudaEventCreateWithFlags", d.index);
  return e;
}

void give_event(Device d, void* event, bool timing) {
  detail::CudaState& s = cuda_state();
  const std::lock_guard lock(s.mutex);
  s.devices[d.index].events[timing].push_back(event);
}

void* take_host(i64 bytes) {
  void* p = nullptr;
  const int code = api().take_host(&p, size_t(bytes));
  if (code == kCudaOutOfMemory) {
    api().last_error();
    return nullptr;
  }
  cuda_check(code, "cudaHostAlloc", 0);
  return p;
}

constexpr StreamBackend kStreams = {
    .make_stream = make_stream,
    .stream_done =
        [](Device d, void* s) {
          enter_cuda(d.index);
          return finished(api().query_stream(s), "cudaStreamQuery", d);
        },
    .stream_wait =
        [](Device d, void* s) {
          enter_cuda(d.index);
          cuda_check(api().wait_stream(s), "cudaStreamSynchronize", d.index);
        },
    .stream_after =
        [](Device d, void* s, void* event) {
          enter_cuda(d.index);
          cuda_check(api().stream_after(s, event), "cudaStreamWaitEvent", d.index);
        },
    .take_event = take_event,
    .give_event = give_event,
    .record =
        [](Device d, void* event, void* s) {
          enter_cuda(d.index);
          cuda_check(api().record(event, s), "cudaEventRecord", d.index);
        },
    .event_done =
        [](Device d, void* event) {
          return finished(api().query_event(event), "cudaEventQuery", d);
        },
    .event_wait =
        [](Device d, void* event) {
          cuda_check(api().wait_event(event), "cudaEventSynchronize", d.index);
        },
    .elapsed_ms =
        [](Device d, void* from, void* to) {
          float ms = 0;
          const int code = api().elapsed(&ms, from, to);
          if (code == kCudaNotReady) {
            api().last_error();
            throw UsageError("[Event] the event has not happened yet\n  Try synchronize() first");
          }
          cuda_check(code, "cudaEventElapsedTime", d.index);
          return double(ms);
        },
    .use =
        [](Device d, const void* block, void* s) {
          enter_cuda(d.index);
          if (block) pool(d).use(block, s);
        },
    .take_host = take_host,
    .give_host = [](void* block) { api().free_host(block); },
    .to_host = [](void* host, Device d, const void* device, i64 bytes,
                  void* s) { copy_queued(host, device, d, bytes, CudaCopy::to_host, s); },
    .from_host = [](void* device, Device d, const void* host, i64 bytes,
                    void* s) { copy_queued(device, host, d, bytes, CudaCopy::to_device, s); },
};

// WT_ALLOC: "caching" (default), "direct" (one cudaMalloc a tensor, for memory checkers); "guard"
// (core/memory/guard_alloc.h) too finds most when tensors lie apart.
bool direct_allocation() {
  const char* text = std::getenv("WT_ALLOC");
  if (!text || !*text || !std::strcmp(text, "caching")) return false;
  if (!std::strcmp(text, "direct") || !std::strcmp(text, "guard")) return true;
  throw UsageError(str("WT_ALLOC=", printable(text), ": caching, direct or guard",
                       did_you_mean(text, std::vector<std::string_view>{"caching", "direct"})));
}

}  // namespace

namespace detail {

void connect_cuda(CudaState& s) {
  const bool direct = direct_allocation();
  for (int i = 0; i < s.count; ++i)
    if (!s.devices[i].pool) s.devices[i].pool = std::make_unique<CudaPool>(*s.api, i, direct);
  const char* sync = std::getenv("WT_CUDA_SYNC");
  s.sync_launches = launches_wait = sync && *sync && std::strcmp(sync, "0") != 0;
  s.started = true;
  if (s.count > 1) process_slow.fetch_or(kSlowDevices, std::memory_order_relaxed);
  static const bool watched = [] {
    pthread_atfork(nullptr, nullptr, [] { cuda_state().forked = true; });
    return true;
  }();
  (void)watched;
  set_block_allocator(DeviceKind::cuda, &kBlocks);
  memory::set_pool_shape(DeviceKind::cuda, [](Device d) {
    return d.index < cuda_state().count ? pool(d).shape() : memory::PoolShape{};
  });
  set_copy_backend(DeviceKind::cuda, &kCopies);
  set_stream_backend(DeviceKind::cuda, &kStreams);
  // A launch that waits cannot be captured.
  set_graph_backend(DeviceKind::cuda, s.sync_launches ? nullptr : &cuda_graphs);
}

void disconnect_cuda() {
  trim_pinned();
  set_block_allocator(DeviceKind::cuda, nullptr);
  memory::set_pool_shape(DeviceKind::cuda, nullptr);
  set_copy_backend(DeviceKind::cuda, nullptr);
  set_stream_backend(DeviceKind::cuda, nullptr);
  set_graph_backend(DeviceKind::cuda, nullptr);
  launches_wait = false;
  process_slow.fetch_and(~u32(kSlowStreams | kSlowDevices), std::memory_order_relaxed);
}

}  // namespace detail

// Not the first cuda operation's business to be fast: everything is connected under one lock.
void start_cuda_device() {
  static std::mutex* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  detail::CudaState& s = cuda_state();
  if (s.count == 0) throw NotAvailable(s.why_not);
  detail::connect_cuda(s);
}

std::string cuda_bus(Device d) {
  require_available(d);
  using GetDevice = int (*)(int* device, int index);
  using GetBus = int (*)(char* text, int room, int device);
  const auto get = reinterpret_cast<GetDevice>(api().driver_function("cuDeviceGet"));
  const auto bus = reinterpret_cast<GetBus>(api().driver_function("cuDeviceGetPCIBusId"));
  int handle = 0;
  char text[32] = "";
  const bool told = get && bus && get(&handle, d.index) == 0 && bus(text, sizeof text, handle) == 0;
  return told ? text : "";
}

CudaPoolStats cuda_pool_stats(Device d) {
  require_available(d);
  if (!cuda_state().started) return {};
  return pool(d).stats();
}

}  // namespace wt
