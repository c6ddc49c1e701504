// A row sorted in a block's shared memory.
#pragma once
#include "warptape/kernels/device/launch.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Elements 0 to `padded`, a power of two from 64 on, of the block's shared memory in order: those
// of `e`, or pairs of `e` and `at`. Batcher's bitonic sort (1968): whole runs are merged by
// exchanges whose partners do not depend on the data, log n (log n + 1) / 2 steps of n / 2
// exchanges. It is not stable; here no two elements are equal. Threads are a power of two from 32
// on. All of them are synchronised before and after.
template <bool Pairs>
__device__ __forceinline__ void sort_shared(u64* e, u32* at, u32 padded) {
  for (u32 size = 2; size <= padded; size *= 2)
    for (u32 step = size / 2; step > 0; step /= 2) {
      for (u32 p = threadIdx.x; p < padded / 2; p += blockDim.x) {
        const u32 i = 2 * p - (p & (step - 1)), j = i + step;
        const bool up = (i & size) == 0;  // runs ascend and descend by turns
        const u64 a = e[i], b = e[j];
        bool greater = a > b;
        if constexpr (Pairs) greater = greater || (a == b && at[i] > at[j]);
        if (greater != up) continue;
        e[i] = b, e[j] = a;
        if constexpr (Pairs) {
          const u32 place = at[i];
          at[i] = at[j], at[j] = place;
        }
      }
      // Pairs at most 32 apart lie in the 64 elements that a warp has to itself: between two such
      // steps the warp alone waits. That is all of them in rows of 64, 45 of 55 in rows of 1024.
      const u32 next = step > 1 ? step / 2 : size;
      if (step > 32 || next > 32)
        __syncthreads();
      else
        __syncwarp();
    }
  __syncthreads();
}

// Keys of up to 32 bits share a word with their places, which makes one comparison of two.
template <class U>
constexpr bool kPairs = sizeof(U) == 8;
// Writes element `slot`.
template <class U>
__device__ __forceinline__ void put_shared(u64* e, u32* at, u32 slot, U key, u32 place) {
  if constexpr (kPairs<U>)
    e[slot] = key, at[slot] = place;
  else
    e[slot] = u64(key) << 32 | place;
}
// Greater than any element, whose places are smaller.
template <class U>
__device__ __forceinline__ void pad_shared(u64* e, u32* at, u32 slot) {
  e[slot] = ~0ull;
  if constexpr (kPairs<U>) at[slot] = ~0u;
}
template <class U>
__device__ __forceinline__ u32 place_in_shared(const u64* e, const u32* at, u32 slot) {
  if constexpr (kPairs<U>)
    return at[slot];
  else
    return u32(e[slot]);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
