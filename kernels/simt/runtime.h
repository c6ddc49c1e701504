// Internals shared by the executor's files; nothing outside kernels/simt/ includes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "warptape/kernels/simt/executor.h"
#include "warptape/kernels/simt/host_exec.h"

// The sanitizer's entry points are weak: one uninstrumented object serves every flavour, and null
// pointers mean that AddressSanitizer is not in the program.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           size_t* size);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* p, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* p, size_t bytes);
}

namespace wt::simt_runtime {

inline bool has_asan() { return __asan_poison_memory_region != nullptr; }
inline void poison(const void* p, size_t bytes) {
  if (has_asan()) __asan_poison_memory_region(p, bytes);
}
inline void unpoison(const void* p, size_t bytes) {
  if (has_asan()) __asan_unpoison_memory_region(p, bytes);
}

// Values of WT_SIMT_ORDER and WT_SIMT_PROTECT, null if unset. Throws UsageError (options.cpp).
SimtOptions parse_options(const char* order, const char* protect, bool& protect_on);
// Of WT_SIMT_STREAMS.
struct StreamOptions {
  SimtStreams mode = SimtStreams::eager;
  uint64_t seed = 1;
};
StreamOptions parse_streams(const char* text);

// --- Device memory (arena.cpp) ---
constexpr size_t kArenaBytes = size_t(64) << 30;
char* arena_base();
// Whether p lies in a live block or registered range, its end included. Lock-free for the arena.
bool device_pointer(const void* p);
// The live block or range that holds [p, p + bytes); false if none does.
bool device_block(const void* p, size_t bytes, const char** begin, const char** end);

// A block that belongs to `stream`: simt_arena_alloc() for a stream's work.
void* arena_alloc(size_t bytes, void* stream);
// `stream` uses the block too.
void arena_use(const void* block, void* stream);
// The host is done with the block. Queued work may read and write it until arena_end_free(), which
// is due when all of `streams`, the block's own and its users, have done what is queued now.
void arena_begin_free(void* block, std::vector<void*>& streams);
void arena_end_free(void* block);
size_t arena_waiting_bytes();  // of blocks between the two

// One allocation: another one at the same place has another number.
struct Allocation {
  const char* begin = nullptr;
  uint64_t number = 0;
};
// Whose memory p is; false if it is none, or the host has freed it. Registered ranges have number
// 0.
bool find_allocation(const void* p, Allocation& found);
bool still_there(const Allocation& a);

// Opens the arena to host code if it is closed; true: close_arena() is due.
bool open_arena();
void close_arena();
// For a scope. Does not wait for queued work, as SimtUnprotect does.
struct ArenaOpen {
  const bool counted = open_arena();
  ArenaOpen() = default;
  ~ArenaOpen() {
    if (counted) close_arena();
  }
  ArenaOpen(const ArenaOpen&) = delete;
  ArenaOpen& operator=(const ArenaOpen&) = delete;
};

// Faults of kernels and of host code in device memory get a message (fault.cpp). Called again and
// again, because others (test frameworks) set and restore handlers of their own.
void ensure_fault_handler();

// --- Launches (grid.cpp) ---
// Runs a grid now, on this OS thread. Throws KernelError.
void run_launch(const GridLaunch& g, const SimtOptions& options);
std::string kernel_title(const GridLaunch& g);  // "softmax<256> [softmax]"
bool inside_kernel();

// --- Messages (report.cpp) ---
std::string at(Loc loc);  // "softmax.cu:41"
std::string kernel_name(const char* pretty);
// "softmax.cu:41" of a code address, from debug information; skips the executor's own headers.
std::string source_line(const void* code);
// Of each return address "path/softmax.cu:41", the innermost of inlined functions first; those of
// the executor's own headers are left out.
std::vector<std::vector<std::string>> source_frames(const std::vector<const void*>& codes);
std::string strf(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string dim_text(dim3 d);

// --- Race checker (race_runtime.cpp, linked in the race flavour only) ---
// Calls made while a thread runs refer to that thread.
struct RaceHooks {
  void (*grid_begin)();
  std::string (*grid_end)();  // what was found, as text; empty if nothing
  void (*block_begin)(dim3 block, unsigned threads, const char* shared, size_t shared_bytes);
  void (*barrier)();
  void (*warp_sync)(unsigned warp, unsigned mask);
  void (*fence)();
  // An operation of the executor that reads memory for `thread` (ldmatrix).
  void (*read)(unsigned thread, const void* p, size_t bytes, Loc at);
  // An asynchronous copy of `thread` is asked for, and its thread has waited for it.
  void (*copy_begin)(unsigned thread, const char* to, size_t bytes, const char* from,
                     size_t source_bytes, Loc at);
  void (*copy_end)(unsigned thread, const char* to, size_t bytes, const char* from,
                   size_t source_bytes, Loc at);
  // mbarriers, by their number in the block: made or used; a thread arrives; a phase ends; a thread
  // has waited for one. A TMA load, begun by copy_begin, has landed and is the barrier's.
  void (*mbarrier_touch)(unsigned barrier, unsigned thread, const void* p, bool made, Loc at);
  void (*mbarrier_arrive)(unsigned barrier, unsigned thread);
  void (*mbarrier_phase)(unsigned barrier);
  void (*mbarrier_wait)(unsigned barrier, unsigned thread);
  void (*tma_end)(unsigned barrier, const char* to, size_t bytes, Loc at);
};
extern const RaceHooks* race_hooks;

}  // namespace wt::simt_runtime
