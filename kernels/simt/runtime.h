// Internals shared by the executor's files; nothing outside kernels/simt/ includes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

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

// --- Device memory (arena.cpp) ---
constexpr size_t kArenaBytes = size_t(64) << 30;
char* arena_base();
// Whether p lies in a live block or registered range, its end included. Lock-free for the arena.
bool device_pointer(const void* p);
// The live block or range that holds [p, p + bytes); false if none does.
bool device_block(const void* p, size_t bytes, const char** begin, const char** end);

// Faults of kernels and of host code in device memory get a message (fault.cpp). Called again and
// again, because others (test frameworks) set and restore handlers of their own.
void ensure_fault_handler();

// --- Messages (report.cpp) ---
std::string at(Loc loc);  // "softmax.cu:41"
std::string kernel_name(const char* pretty);
// "softmax.cu:41" of a code address, from debug information; skips the executor's own headers.
std::string source_line(const void* code);
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
};
extern const RaceHooks* race_hooks;

}  // namespace wt::simt_runtime
