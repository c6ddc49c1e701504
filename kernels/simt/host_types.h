// CUDA's keywords and types for a plain C++20 compiler. Always our own, toolkit or not, so that the
// objects of the simt device do not depend on what is installed. Types and functions live in
// wt::simt and are pulled into the global scope by name: their mangled names differ from those of
// NVIDIA's headers and one binary can hold both.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

#include "warptape/core/half.h"
#include "warptape/core/macros.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// Code that nvcc inlines and that is called here: many kernels share it, and the sanitizers make
// its copies expensive to compile.
#define WT_HOST_NOINLINE __attribute__((noinline))
// No __noinline__: libstdc++ spells __attribute__((__noinline__)).
// Inlined at every optimisation level: no symbol is left that another build could share.
#define WT_FN inline __attribute__((always_inline))
// A plain __shared__ array would be neither red-zoned nor NaN-filled: make it an error.
#define __shared__ use_WT_SHARED_instead_of__shared__

namespace wt {
inline namespace simt {

// CUDA's vector types, with CUDA's alignment.
#define WT_VEC_TYPE(Name, T, align2, align4)                            \
  struct alignas(align2) Name##2 {                                      \
    T x, y;                                                             \
  };                                                                    \
  struct Name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(align4) Name##4 {                                      \
    T x, y, z, w;                                                       \
  };                                                                    \
  WT_FN                                                                 \
  constexpr Name##2 make_##Name##2(T x, T y) { return {x, y}; }         \
  WT_FN                                                                 \
  constexpr Name##3 make_##Name##3(T x, T y, T z) { return {x, y, z}; } \
  WT_FN                                                                 \
  constexpr Name##4 make_##Name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
WT_VEC_TYPE(char, signed char, 2, 4)
WT_VEC_TYPE(uchar, unsigned char, 2, 4)
WT_VEC_TYPE(short, short, 4, 8)
WT_VEC_TYPE(ushort, unsigned short, 4, 8)
WT_VEC_TYPE(int, int, 8, 16)
WT_VEC_TYPE(uint, unsigned, 8, 16)
WT_VEC_TYPE(longlong, long long, 16, 16)
WT_VEC_TYPE(ulonglong, unsigned long long, 16, 16)
WT_VEC_TYPE(float, float, 8, 16)
WT_VEC_TYPE(double, double, 16, 16)
#undef WT_VEC_TYPE

struct dim3 {
  unsigned x, y, z;
  WT_FN
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  WT_FN
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

// 16-bit floats: storage, conversions and operators of cuda_fp16.h and cuda_bf16.h. Arithmetic
// rounds after every operation, as on the device. Kernels should load 16 bits and compute in float.
#define WT_FLOAT16_TYPE(Name, to_float, from_float)                    \
  struct Name {                                                        \
    unsigned short x_;                                                 \
    Name() = default;                                                  \
    WT_FN                                                              \
    Name(float v) : x_(wt::detail::from_float(v)) {}                   \
    WT_FN                                                              \
    Name(double v) : Name(float(v)) {}                                 \
    WT_FN                                                              \
    Name(int v) : Name(float(v)) {}                                    \
    WT_FN                                                              \
    Name(unsigned v) : Name(float(v)) {}                               \
    WT_FN                                                              \
    Name(long v) : Name(float(v)) {}                                   \
    WT_FN                                                              \
    Name(unsigned long v) : Name(float(v)) {}                          \
    WT_FN                                                              \
    Name(long long v) : Name(float(v)) {}                              \
    WT_FN                                                              \
    Name(unsigned long long v) : Name(float(v)) {}                     \
    WT_FN                                                              \
    operator float() const { return wt::detail::to_float(x_); }        \
  };                                                                   \
  WT_FN                                                                \
  Name operator+(Name a, Name b) { return Name(float(a) + float(b)); } \
  WT_FN                                                                \
  Name operator-(Name a, Name b) { return Name(float(a) - float(b)); } \
  WT_FN                                                                \
  Name operator*(Name a, Name b) { return Name(float(a) * float(b)); } \
  WT_FN                                                                \
  Name operator/(Name a, Name b) { return Name(float(a) / float(b)); } \
  WT_FN                                                                \
  Name operator-(Name a) {                                             \
    a.x_ ^= 0x8000;                                                    \
    return a;                                                          \
  }                                                                    \
  WT_FN                                                                \
  Name& operator+=(Name& a, Name b) { return a = a + b; }              \
  WT_FN                                                                \
  Name& operator-=(Name& a, Name b) { return a = a - b; }              \
  WT_FN                                                                \
  Name& operator*=(Name& a, Name b) { return a = a * b; }              \
  WT_FN                                                                \
  Name& operator/=(Name& a, Name b) { return a = a / b; }              \
  WT_FN                                                                \
  bool operator==(Name a, Name b) { return float(a) == float(b); }     \
  WT_FN                                                                \
  bool operator!=(Name a, Name b) { return float(a) != float(b); }     \
  WT_FN                                                                \
  bool operator<(Name a, Name b) { return float(a) < float(b); }       \
  WT_FN                                                                \
  bool operator<=(Name a, Name b) { return float(a) <= float(b); }     \
  WT_FN                                                                \
  bool operator>(Name a, Name b) { return float(a) > float(b); }       \
  WT_FN                                                                \
  bool operator>=(Name a, Name b) { return float(a) >= float(b); }     \
  struct alignas(4) Name##2_pair {                                     \
    Name x, y;                                                         \
  };
WT_FLOAT16_TYPE(__half, half_to_float, float_to_half)
WT_FLOAT16_TYPE(__nv_bfloat16, bfloat_to_float, float_to_bfloat)
#undef WT_FLOAT16_TYPE
using half = __half;
using nv_bfloat16 = __nv_bfloat16;
using __half2 = __half2_pair;
using __nv_bfloat162 = __nv_bfloat162_pair;
using half2 = __half2;
using nv_bfloat162 = __nv_bfloat162;

WT_FN
float __half2float(__half h) { return float(h); }
WT_FN
__half __float2half(float f) { return __half(f); }
WT_FN
__half __float2half_rn(float f) { return __half(f); }
WT_FN
__half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
WT_FN
__half2 __halves2half2(__half a, __half b) { return {a, b}; }
WT_FN
float2 __half22float2(__half2 h) { return {float(h.x), float(h.y)}; }
WT_FN
float __low2float(__half2 h) { return float(h.x); }
WT_FN
float __high2float(__half2 h) { return float(h.y); }
WT_FN
unsigned short __half_as_ushort(__half h) { return h.x_; }
WT_FN
__half __ushort_as_half(unsigned short u) { return __builtin_bit_cast(__half, u); }
WT_FN
float __bfloat162float(__nv_bfloat16 h) { return float(h); }
WT_FN
__nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
WT_FN
__nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
WT_FN
__nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__nv_bfloat16(a), __nv_bfloat16(b)};
}
WT_FN
__nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
WT_FN
float2 __bfloat1622float2(__nv_bfloat162 h) { return {float(h.x), float(h.y)}; }
WT_FN
unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.x_; }
WT_FN
__nv_bfloat16 __ushort_as_bfloat16(unsigned short u) {
  return __builtin_bit_cast(__nv_bfloat16, u);
}

// A place in a kernel's source, captured by a default argument where a CUDA name is called.
struct Loc {
  const char* file;
  unsigned line;
  static constexpr Loc current(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) {
    return {f, l};
  }
};

}  // namespace simt
}  // namespace wt

// CUDA's index variables: thread-local, because several OS threads may run grids at the same time.
// Plain globals, so that a debugger can say `break f.cu:45 if threadIdx.x == 37`.
extern __thread wt::uint3 threadIdx, blockIdx;
struct wt_index_dims : wt::uint3 {
  WT_FN
  operator wt::dim3() const { return wt::dim3(x, y, z); }
};
extern __thread wt_index_dims blockDim, gridDim;
inline constexpr int warpSize = 32;

#define WT_GLOBAL_VEC(Name) \
  using wt::Name##2;        \
  using wt::Name##3;        \
  using wt::Name##4;        \
  using wt::make_##Name##2; \
  using wt::make_##Name##3; \
  using wt::make_##Name##4;
WT_GLOBAL_VEC(char)
WT_GLOBAL_VEC(uchar)
WT_GLOBAL_VEC(short)
WT_GLOBAL_VEC(ushort)
WT_GLOBAL_VEC(int)
WT_GLOBAL_VEC(uint)
WT_GLOBAL_VEC(longlong)
WT_GLOBAL_VEC(ulonglong)
WT_GLOBAL_VEC(float)
WT_GLOBAL_VEC(double)
#undef WT_GLOBAL_VEC
using wt::__bfloat1622float2;
using wt::__bfloat162float;
using wt::__bfloat16_as_ushort;
using wt::__float2bfloat16;
using wt::__float2bfloat16_rn;
using wt::__float2half;
using wt::__float2half_rn;
using wt::__floats2bfloat162_rn;
using wt::__floats2half2_rn;
using wt::__half;
using wt::__half2;
using wt::__half22float2;
using wt::__half2float;
using wt::__half_as_ushort;
using wt::__halves2bfloat162;
using wt::__halves2half2;
using wt::__high2float;
using wt::__low2float;
using wt::__nv_bfloat16;
using wt::__nv_bfloat162;
using wt::__ushort_as_bfloat16;
using wt::__ushort_as_half;
using wt::dim3;
using wt::half;
using wt::half2;
using wt::nv_bfloat16;
using wt::nv_bfloat162;
