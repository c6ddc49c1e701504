// Instruction sets of the cpu device's faster variants: chosen at run time, by function attributes,
// never by flags of a file. Plain C++ sources only.
#pragma once
#include <atomic>

#include "warptape/core/macros.h"

#if defined(__x86_64__)
#define WT_X86 1
#include <immintrin.h>
#define WT_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define WT_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
// The same for loops that compilers make vector code of; gcc would take half the width.
#if defined(__clang__)
#define WT_TARGET_AVX512_WIDE WT_TARGET_AVX512
#else
#define WT_TARGET_AVX512_WIDE \
  __attribute__((             \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")))
#endif
// The row of an `avx2` variant in WT_VARIANTS; nothing off x86.
#define WT_AVX2_ROW(...) {__VA_ARGS__},
#else
#define WT_X86 0
#define WT_AVX2_ROW(...)
#define WT_TARGET_AVX512_WIDE
#define WT_TARGET_AVX2
#define WT_TARGET_AVX512
#endif

namespace wt {

// Each has those before it. Tables of compiled copies have this order.
enum CpuIsa : int { kBaseline, kAvx2, kAvx512 };
inline constexpr const char* kNoAvx2 = "this processor has no AVX2 with FMA";

// What this machine and its operating system offer. kBaseline off x86, and until the library's
// initialisers have run. Tests set it lower.
extern constinit std::atomic<int> cpu_isa_in_use;
WT_HOT int cpu_isa() { return cpu_isa_in_use.load(std::memory_order_relaxed); }

}  // namespace wt
