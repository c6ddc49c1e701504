// Instruction sets of the cpu device's faster variants: chosen at run time, by function attributes,
// never by flags of a file. Plain C++ sources only.
#pragma once
#include "warptape/core/macros.h"

#if defined(__x86_64__)
#define WT_X86 1
#include <immintrin.h>
#define WT_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define WT_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#else
#define WT_X86 0
#define WT_TARGET_AVX2
#define WT_TARGET_AVX512
#endif

namespace wt {

// What this machine and its operating system offer; false off x86.
WT_HOT bool cpu_has_avx2() {
#if WT_X86
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}
WT_HOT bool cpu_has_avx512() {
#if WT_X86
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace wt
