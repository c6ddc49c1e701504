// Powers of many elements on the cpu: a file of its own, because formulas are compiled without
// contraction (CMakeLists.txt).
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/linalg/cdist_cpu.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {

namespace {

constexpr int kBlock = 16;  // a fixed count, so that compilers make vector code at -O2

WT_HOT void raise_body(float* v, i64 n, float p) {
  for (; n >= kBlock; n -= kBlock, v += kBlock) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
    for (int i = 0; i < kBlock; ++i) v[i] = pw::power(v[i], p);
  }
  for (int i = 0; i < n; ++i) v[i] = pw::power(v[i], p);
}
void raise_plain(float* v, i64 n, float p) { raise_body(v, n, p); }
WT_TARGET_AVX2 void raise_avx2(float* v, i64 n, float p) { raise_body(v, n, p); }
WT_TARGET_AVX512_WIDE void raise_avx512(float* v, i64 n, float p) { raise_body(v, n, p); }

}  // namespace

void raise_elements(float* v, i64 n, float p) {
  const int isa = cpu_isa();
  (isa >= kAvx512 ? raise_avx512 : isa >= kAvx2 ? raise_avx2 : raise_plain)(v, n, p);
}
void raise_elements(double* v, i64 n, double p) {
  for (i64 i = 0; i < n; ++i) v[i] = pw::power(v[i], p);
}

}  // namespace wt
