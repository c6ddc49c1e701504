#include "warptape/kernels/cpu/isa.h"

#if WT_X86
#include <cpuid.h>
#endif

namespace wt {

constinit std::atomic<int> cpu_isa_in_use{kBaseline};

#if WT_X86
namespace {

bool has_f16c() {  // clang 14's __builtin_cpu_supports does not know the name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

int best_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
    return kBaseline;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
             ? kAvx512
             : kAvx2;
}

// Before the initialisers of other files, which may make tensors: with one seed the same numbers
// as later.
__attribute__((constructor(101))) void look_for_isa() { cpu_isa_in_use = best_isa(); }

}  // namespace
#endif

}  // namespace wt
