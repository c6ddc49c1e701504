// CUDA's scalar intrinsics and the math names that <math.h> lacks. Numerics are the host's: no
// contraction to FMA, exact exp behind __expf. Compare with tolerances, never for equal bits.
#pragma once
#include <math.h>

#include "warptape/kernels/simt/host_types.h"

// glibc declares __expf and friends with C linkage, so these have to be macros.
#define __expf(x) ::expf(x)
#define __exp10f(x) ::wt::simt_exp10f(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __log10f(x) ::log10f(x)
#define __powf(x, y) ::powf(x, y)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)
#define __tanf(x) ::tanf(x)

namespace wt {
inline namespace simt {

WT_FN
float simt_exp10f(float x) { return ::powf(10.0f, x); }
WT_FN
float rsqrtf(float x) { return 1.0f / ::sqrtf(x); }
WT_FN
double rsqrt(double x) { return 1.0 / ::sqrt(x); }
WT_FN
float __frsqrt_rn(float x) { return 1.0f / ::sqrtf(x); }
WT_FN
float __fdividef(float a, float b) { return a / b; }
WT_FN
float __fadd_rn(float a, float b) { return a + b; }
WT_FN
float __fsub_rn(float a, float b) { return a - b; }
WT_FN
float __fmul_rn(float a, float b) { return a * b; }
WT_FN
float __fdiv_rn(float a, float b) { return a / b; }
WT_FN
float __frcp_rn(float a) { return 1.0f / a; }
WT_FN
float __fsqrt_rn(float a) { return ::sqrtf(a); }
WT_FN
float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
WT_FN
double __fma_rn(double a, double b, double c) { return ::fma(a, b, c); }
WT_FN
float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

WT_FN
unsigned __float_as_uint(float f) { return __builtin_bit_cast(unsigned, f); }
WT_FN
int __float_as_int(float f) { return __builtin_bit_cast(int, f); }
WT_FN
float __uint_as_float(unsigned u) { return __builtin_bit_cast(float, u); }
WT_FN
float __int_as_float(int i) { return __builtin_bit_cast(float, i); }
WT_FN
long long __double_as_longlong(double d) { return __builtin_bit_cast(long long, d); }
WT_FN
double __longlong_as_double(long long i) { return __builtin_bit_cast(double, i); }
WT_FN
int __float2int_rn(float x) { return int(::nearbyintf(x)); }
WT_FN
int __float2int_rz(float x) { return int(x); }
WT_FN
int __float2int_rd(float x) { return int(::floorf(x)); }
WT_FN
int __float2int_ru(float x) { return int(::ceilf(x)); }
WT_FN
float __int2float_rn(int i) { return float(i); }
WT_FN
float __uint2float_rn(unsigned i) { return float(i); }

WT_FN
int __popc(unsigned x) { return __builtin_popcount(x); }
WT_FN
int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WT_FN
int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
WT_FN
int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
WT_FN
int __ffs(int x) { return __builtin_ffs(x); }
WT_FN
int __ffsll(long long x) { return __builtin_ffsll(x); }
WT_FN
unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
WT_FN
int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
WT_FN
unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
WT_FN
unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i, x >>= 1) r = r << 1 | (x & 1);
  return r;
}
WT_FN
unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return unsigned(((unsigned long long)hi << 32 | lo) << (shift & 31) >> 32);
}
WT_FN
unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return unsigned(((unsigned long long)hi << 32 | lo) >> (shift & 31));
}

#define WT_MIN_MAX(T)                                 \
  WT_FN                                               \
  constexpr T min(T a, T b) { return b < a ? b : a; } \
  WT_FN                                               \
  constexpr T max(T a, T b) { return a < b ? b : a; }
WT_MIN_MAX(int)
WT_MIN_MAX(unsigned)
WT_MIN_MAX(long)
WT_MIN_MAX(unsigned long)
WT_MIN_MAX(long long)
WT_MIN_MAX(unsigned long long)
#undef WT_MIN_MAX
// A NaN operand is ignored, as by the device's instruction.
WT_FN
float min(float a, float b) { return ::fminf(a, b); }
WT_FN
float max(float a, float b) { return ::fmaxf(a, b); }
WT_FN
double min(double a, double b) { return ::fmin(a, b); }
WT_FN
double max(double a, double b) { return ::fmax(a, b); }

template <class T>
WT_FN T __ldg(const T* p) {
  return *p;
}
template <class T>
WT_FN T __ldcs(const T* p) {
  return *p;
}
template <class T>
WT_FN T __ldcg(const T* p) {
  return *p;
}
template <class T>
WT_FN void __stcs(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
WT_FN void __stcg(T* p, std::type_identity_t<T> v) {
  *p = v;
}

}  // namespace simt
}  // namespace wt

using wt::__brev;
using wt::__clz;
using wt::__clzll;
using wt::__double_as_longlong;
using wt::__fadd_rn;
using wt::__fdiv_rn;
using wt::__fdividef;
using wt::__ffs;
using wt::__ffsll;
using wt::__float2int_rd;
using wt::__float2int_rn;
using wt::__float2int_ru;
using wt::__float2int_rz;
using wt::__float_as_int;
using wt::__float_as_uint;
using wt::__fma_rn;
using wt::__fmaf_rn;
using wt::__fmul_rn;
using wt::__frcp_rn;
using wt::__frsqrt_rn;
using wt::__fsqrt_rn;
using wt::__fsub_rn;
using wt::__funnelshift_l;
using wt::__funnelshift_r;
using wt::__int2float_rn;
using wt::__int_as_float;
using wt::__ldcg;
using wt::__ldcs;
using wt::__ldg;
using wt::__longlong_as_double;
using wt::__mulhi;
using wt::__popc;
using wt::__popcll;
using wt::__saturatef;
using wt::__stcg;
using wt::__stcs;
using wt::__uint2float_rn;
using wt::__uint_as_float;
using wt::__umul64hi;
using wt::__umulhi;
using wt::max;
using wt::min;
using wt::rsqrt;
using wt::rsqrtf;
