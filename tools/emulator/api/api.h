// What every entry point does around its own work: the lock, the checks that come before any call,
// the thread's last error, and the steps that queued work takes.
#pragma once
#include <utility>

// The definitions are what programs link against; everything else is hidden.
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "device/context.h"
#include "device/errors.h"
#include "device/gpu.h"
#include "device/lock.h"
#include "device/stream.h"

namespace emu {

enum : u32 {
  kPlain = 0,
  kNoDevice = 1,   // needs no working device: cudaSetDevice, properties
  kUnsafe = 2,     // may not be called while a stream is captured (relaxed mode excepted)
  kLaunch = 4,     // its error is looked for at the end
  kKeepError = 8,  // its result is no error of the thread's
};

class Call {
 public:
  Call(const char* name, u32 flags) : name_(name), flags_(flags) {}
  cudaError_t begin();
  cudaError_t end(cudaError_t e);

 private:
  const char* name_;
  u32 flags_;
};

template <class F>
cudaError_t call(const char* name, u32 flags, F&& body) {
  Call c(name, flags);
  if (is_forked_child()) return cudaErrorInitializationError;
  const Locked lock;
  cudaError_t e = c.begin();
  if (e == cudaSuccess) {
    try {
      e = std::forward<F>(body)();
    } catch (const std::bad_alloc&) {
      e = cudaErrorMemoryAllocation;
    }
  }
  return c.end(e);
}
template <class F>
cudaError_t call(const char* name, F&& body) {
  return call(name, kPlain, std::forward<F>(body));
}

inline u64 address_of(const void* p) { return reinterpret_cast<u64>(p); }
inline void* pointer_to(u64 address) { return reinterpret_cast<void*>(address); }

// The stream of a call; null after a note that says what is wrong with the handle.
StreamRef stream_or_note(const char* name, cudaStream_t stream);
EventRef event_or_note(const char* name, cudaEvent_t event);

// Queues the work, or adds it to the graph that the stream is captured into. Null: the error.
// `more`: what it has to wait for besides.
cudaError_t put(const char* name, const StreamRef& stream, WorkRef work, OpRef* op = nullptr,
                std::vector<OpRef> more = {});

}  // namespace emu
