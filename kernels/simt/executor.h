// Host-side control of the simt device: schedule options, statistics, device memory.
//
// The executor runs the threads of a block as fibers of one OS thread, and the blocks of a large
// grid on up to num_threads() of them; a launch returns when its grid has run, or
// (SimtStreams::lazy) when it is queued. Several OS threads may launch at the same time.
// docs/simt.md has the page.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "warptape/core/error.h"

namespace wt {

// A bug in a kernel or its launch that the executor found: divergent barrier, deadlock, bad lane,
// misaligned access, stack overflow, race, host pointer, ... The message names kernel, block,
// thread and source line. After it the device is usable; memory the kernel wrote is unspecified.
class WT_API KernelError : public InternalError {
 public:
  explicit KernelError(const std::string& message) : InternalError("KernelError", 1, message) {}
};

// Order of blocks, of the threads that start, and of the threads that a barrier releases. A kernel
// whose result depends on it lacks synchronisation.
enum class SimtOrder { forward, reverse, random };

// Process-wide, read at each launch; change it between launches. The first use reads
// WT_SIMT_ORDER=forward|reverse|random[:seed] and WT_SIMT_PROTECT=1 (UsageError for other values).
struct SimtOptions {
  SimtOrder order = SimtOrder::forward;
  uint64_t seed = 1;
  // Also rejects what current hardware tolerates: threads that return before a barrier of their
  // block, two barriers of different source lines meeting each other.
  bool strict = true;
  uint64_t spin_limit = uint64_t(1) << 22;  // failed polls without progress before "livelock"
  bool fill_new_memory = true;              // fresh device memory reads as NaN
};
WT_API SimtOptions& simt_options();

// When launches and copies run: at once, or when the host waits for them and no earlier, in an
// order of the streams drawn from a seed. Lazy is for tests: what reads too early reads NaN, and
// errors of kernels are thrown by the wait that runs them.
enum class SimtStreams { eager, lazy };
WT_API SimtStreams simt_streams();
// Runs what is queued, then changes the mode; the first use of either reads
// WT_SIMT_STREAMS=eager|lazy[:seed] (UsageError for other values). Streams, events and tensors that
// copies use must not outlive the mode that they were made in. Throws what queued work did wrong.
WT_API void set_simt_streams(SimtStreams mode, uint64_t seed = 1);

// How the kernels of this program were compiled: "plain", "asan" or "race".
WT_API const char* simt_flavour();

// Counters of what the calling OS thread launched since it started.
struct SimtStats {
  uint64_t launches = 0, blocks = 0, threads = 0, switches = 0, barriers = 0, collectives = 0;
};
WT_API SimtStats simt_stats();

// --- Device memory ---
// An arena of reserved address space; pages are committed as it grows and blocks are reused.
// Between blocks lie at least 64 bytes of red zone, poisoned under AddressSanitizer.

// 256-byte aligned, filled with 0xFF (NaN) if fill_new_memory. Zero bytes give a valid block.
// Returns null when the arena is exhausted. O(log blocks); safe from any thread.
WT_API void* simt_arena_alloc(size_t bytes);
// Waits for queued work. Null is ignored; anything else that is not a live block throws
// InternalError.
WT_API void simt_arena_free(void* block);

struct SimtArenaInfo {
  size_t reserved = 0;   // address space
  size_t committed = 0;  // backed by memory at some time
  size_t live_bytes = 0;
  size_t live_blocks = 0;
};
WT_API SimtArenaInfo simt_arena_info();

// Memory from elsewhere that kernels may read and write (host memory in tests, for example).
WT_API void simt_register(void* begin, size_t bytes);
WT_API void simt_unregister(void* begin);  // waits for queued work
// Whether [p, p + bytes) lies inside one live block or registered range; a pointer to its end
// counts for bytes == 0.
WT_API bool simt_is_device(const void* p, size_t bytes);

// While protection is on, host code that touches the arena outside launches and SimtUnprotect
// scopes faults, as it would on a GPU, after a message on stderr that says so. Costs two system
// calls a launch or copy: for tests. Returns the previous setting. Not to be changed during
// launches.
WT_API bool simt_protect(bool on);

// Waits for queued work (throws what it did wrong) and opens the arena for a copy by the host.
// Scopes nest and may be open on several threads.
class WT_API SimtUnprotect {
 public:
  SimtUnprotect();
  ~SimtUnprotect();
  SimtUnprotect(const SimtUnprotect&) = delete;
  SimtUnprotect& operator=(const SimtUnprotect&) = delete;

 private:
  bool counted_;
};

}  // namespace wt
