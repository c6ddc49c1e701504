#include "device/context.h"

#include <driver_types.h>

#include "device/gpu.h"
#include "device/lock.h"
#include "device/memory.h"

namespace emu {
namespace {

struct Context {
  int error = 0;
  bool started = false;
  u32 flags = 0;
  // As the driver gives them for sm_90.
  u64 stack = 1024, printf_fifo = 1 << 20, heap = 8 << 20, pending_launches = 2048;
  u64 l2_granularity = 64, persisting_l2 = 0;
};
Context contexts[16];
thread_local int current = 0;

u64* limit_of(Context& c, int limit) {
  switch (limit) {
    case cudaLimitStackSize:
      return &c.stack;
    case cudaLimitPrintfFifoSize:
      return &c.printf_fifo;
    case cudaLimitMallocHeapSize:
      return &c.heap;
    case cudaLimitDevRuntimePendingLaunchCount:
      return &c.pending_launches;
    case cudaLimitMaxL2FetchGranularity:
      return &c.l2_granularity;
    case cudaLimitPersistingL2CacheSize:
      return &c.persisting_l2;
    default:
      return nullptr;
  }
}

}  // namespace

int current_device() { return current; }
void set_current_device(int device) { current = device; }
int device_error(int device) { return contexts[device].error; }
void lose_device(int device, int error) {
  if (contexts[device].error == 0) contexts[device].error = error;
}

bool device_started(int device) { return contexts[device].started; }
void start_device(int device) {
  if (contexts[device].started) return;
  contexts[device].started = true;
  watch_forks();
}

u64 device_limit(int device, int limit, bool* known) {
  const u64* value = limit_of(contexts[device], limit);
  *known = value;
  return value ? *value : 0;
}
bool set_device_limit(int device, int limit, u64 value) {
  u64* at = limit_of(contexts[device], limit);
  if (at) *at = value;
  return at;
}
u32& device_flags(int device) { return contexts[device].flags; }

}  // namespace emu
