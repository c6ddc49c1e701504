// Accounting of tensor memory, and the switches that tests use on the allocator.
#pragma once
#include "warptape/core/device.h"
#include "warptape/core/macros.h"
#include "warptape/core/mode.h"

namespace wt::memory {

// Bytes that tensors on a device ask for (not what the pools keep in reserve).
struct Stats {
  i64 live = 0;                            // now
  i64 peak = 0;                            // highest `live` since the last reset_peak()
  i64 by_category[kNumCategories]{};       // now
  i64 peak_by_category[kNumCategories]{};  // what each category held when the peak was reached
  i64 reserved = 0;                        // taken from the system, pools included
  u64 requests = 0;                        // allocations since the start
};

// Sum over all threads. `peak` is exact when one thread allocates; with several it is the sum of
// the threads' peaks, an upper bound. For a meta device: what the real one would have held.
WT_API Stats stats(Device d);
// Starts a new peak at the present level (this thread's share).
WT_API void reset_peak(Device d);

// The n-th tensor allocation from now on this thread (1 = the next) throws OutOfMemory; 0 disarms.
// Later ones succeed.
WT_API void fail_nth_request(u64 n);
// Requests of this thread for more bytes throw OutOfMemory, on every device; 0: none does.
WT_API void fail_requests_above(i64 bytes);
// The next tensor of this thread that is not from a pool throws OutOfMemory.
WT_API void fail_next_tensor();
// Requests of this thread, all devices: to learn how many a step makes.
WT_API u64 request_count();

// Gives what the pools keep and nobody uses back to the system: blocks, tensors and the tape's
// nodes (this thread's, and the devices').
WT_API void empty_cache();
// Tensors and nodes that this thread's pools keep.
WT_API i64 pooled_objects();

// Objects of the library that are alive in the process: what a leak guard compares.
struct LiveObjects {
  i64 tensors = 0;
  i64 storages = 0;
  i64 nodes = 0;
  friend bool operator==(const LiveObjects&, const LiveObjects&) = default;
};
WT_API LiveObjects live_objects();

}  // namespace wt::memory
