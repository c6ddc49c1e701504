// 16-byte accesses to consecutive elements, for kernels.
#pragma once
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// V elements as one access of at most 16 bytes.
// The alignment is what lets the compiler move it with one instruction; an address that breaks it
// is a fault on the GPU.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

// v[0..V) = p[0..V); p is aligned to min(16, V * sizeof(T)) bytes.
template <int V, class T>
__device__ __forceinline__ void load_vector(T (&v)[V], const T* p) {
  constexpr int kWidth = V * sizeof(T) <= 16 ? V : int(16 / sizeof(T));
  // Unrolled, so that v[i + k] is a register with a name and not an array in local memory.
#pragma unroll
  for (int i = 0; i < V; i += kWidth) {
    const auto pack = vload<Pack<T, kWidth>>(p + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[i + k] = pack.v[k];
  }
}
template <int V, class T>
__device__ __forceinline__ void store_vector(T* p, const T (&v)[V]) {
  constexpr int kWidth = V * sizeof(T) <= 16 ? V : int(16 / sizeof(T));
#pragma unroll
  for (int i = 0; i < V; i += kWidth) {
    Pack<T, kWidth> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) pack.v[k] = v[i + k];
    vstore(p + i, pack);
  }
}

// May be read in 16-byte pieces.
WT_HD WT_HOT bool aligned_16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace WT_DEVICE_NS
}  // namespace wt
