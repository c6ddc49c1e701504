// Instruction sets of the cpu device's faster variants: chosen at run time, by function attributes,
// never by flags of a file. Plain C++ sources only.
#pragma once
#include "warptape/core/macros.h"

#if defined(__x86_64__)
#define WT_X86 1
#include <cpuid.h>
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
#else
#define WT_X86 0
#define WT_TARGET_AVX512_WIDE
#define WT_TARGET_AVX2
#define WT_TARGET_AVX512
#endif

namespace wt {

#if WT_X86
namespace detail {
WT_HOT bool cpu_has_f16c() {
#if defined(__clang__)  // clang 14's builtin does not know the name
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return has;
#else
  return __builtin_cpu_supports("f16c");
#endif
}
}  // namespace detail
#endif

// What this machine and its operating system offer; false off x86.
WT_HOT bool cpu_has_avx2() {
#if WT_X86
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && detail::cpu_has_f16c();
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
