// The nvcc half of simt.h: the same names over real CUDA and inline PTX.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

#include "warptape/core/macros.h"

#define WT_HOST_NOINLINE __forceinline__
#define WT_SHARED(T, name, ...) __shared__ T name __VA_ARGS__
// 16-byte aligned. Asking for more here would pad every kernel's static shared memory too: align up
// inside the kernel.
#define WT_DYN_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char wt_dyn_shared[]; \
  T* name = reinterpret_cast<T*>(wt_dyn_shared)

namespace wt {
inline namespace cuda {

template <class V>
__device__ __forceinline__ V vload(const void* p) {
  static_assert(sizeof(V) <= 16 && alignof(V) == sizeof(V));
  return *static_cast<const V*>(p);
}
template <class V>
__device__ __forceinline__ void vstore(void* p, V v) {
  static_assert(sizeof(V) <= 16 && alignof(V) == sizeof(V));
  *static_cast<V*>(p) = v;
}

// What CUDA lacks: minimum and maximum of float and double. A NaN operand is ignored.
template <bool Max, class T>
__device__ __forceinline__ T atomic_extremum(T* p, T v) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  using U = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  U* q = reinterpret_cast<U*>(p);
  U seen = *reinterpret_cast<volatile U*>(q), bits;
  for (;;) {
    T old;
    memcpy(&old, &seen, sizeof old);
    if (!((Max ? v > old : v < old) || old != old)) return old;
    memcpy(&bits, &v, sizeof bits);
    const U now = atomicCAS(q, seen, bits);
    if (now == seen) return old;
    seen = now;
  }
}
template <class T>
__device__ __forceinline__ T atomic_min(T* p, std::type_identity_t<T> v) {
  return atomic_extremum<false, T>(p, v);
}
template <class T>
__device__ __forceinline__ T atomic_max(T* p, std::type_identity_t<T> v) {
  return atomic_extremum<true, T>(p, v);
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// d += A * B with A 16x16 row-major, B 16x8 column-major fragments of T = __half or __nv_bfloat16,
// accumulated in float. Fragment layouts: PTX ISA, mma.m16n8k16. All 32 lanes take part.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
#define WT_MMA(type)                                                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (std::is_same_v<T, __half>)
    WT_MMA("f16");
  else
    WT_MMA("bf16");
#undef WT_MMA
}

// Loads N 8x8 matrices of 16-bit elements from shared memory; lane i gives the 16-byte aligned
// address of row i % 8 of matrix i / 8.
template <int N, bool Transposed = false>
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[N], const void* row) {
  static_assert(N == 1 || N == 2 || N == 4);
  const uint32_t s = shared_address(row);
  if constexpr (N == 1 && !Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(s)
                 : "memory");
  else if constexpr (N == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(s)
                 : "memory");
  else if constexpr (N == 2 && !Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(s)
                 : "memory");
  else if constexpr (N == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(s)
                 : "memory");
  else if constexpr (!Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(s)
                 : "memory");
}

}  // namespace cuda
}  // namespace wt
