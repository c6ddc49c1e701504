// cp.async: a thread asks for 4, 8 or 16 bytes to go from global to shared memory and works on;
// they take no register on their way. Without it a tile that is to come lies in registers while the
// one before it is multiplied, and a load that waits in a register can be one tile ahead, not
// three.
//
//   for (s = 0; s < kStages - 1; ++s) { copy stage s; cp_async_commit(); }
//   for (step = 0; ...; ++step) {
//     cp_async_wait<kStages - 2>();  // my part of stage `step` has landed ...
//     __syncthreads();               // ... everybody's has, and all have read the stage before
//     copy stage step + kStages - 1; cp_async_commit();  // also if there is none: wait<N> counts
//     read stage `step`;
//   }
//
// A thread waits for its own copies only, hence the barrier after it: what others have copied is
// there when they have waited too. The same barrier keeps a copy out of a stage that is still read.
//
// On simt a copy happens late, at the wait, and until then its bytes are NaN; docs/simt.md.
#pragma once
#include "warptape/kernels/simt/simt.h"
#if !defined(__CUDACC__)
#include "warptape/kernels/simt/async_copy.h"
#endif

namespace wt {
inline namespace WT_DEVICE_NS {

#if defined(__CUDACC__)

// Copies Bytes to shared memory, `source_bytes` of them from `from` and zeros for the rest, without
// reading what lies beyond. Both addresses are multiples of Bytes, also where nothing is read.
// 16 bytes pass L1 by (.cg): a tile is used from shared memory, a second copy in L1 would only
// drive others out. Smaller ones can't.
template <int Bytes>
__device__ __forceinline__ void cp_async(void* to, const void* from, int source_bytes = Bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(source_bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "n"(Bytes), "r"(source_bytes)
                 : "memory");
}
// The thread's copies since the last commit become a group, an empty one if there are none.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most N of the thread's groups are under way, the youngest.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else

template <int Bytes>
WT_FN void cp_async(void* to, const void* from, int source_bytes = Bytes, Loc at = Loc::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  exec_cp_async(to, from, Bytes, source_bytes, at);
}
WT_FN void cp_async_commit() { exec_cp_async_commit(); }
template <int N>
WT_FN void cp_async_wait() {
  exec_cp_async_wait(N);
}

#endif

}  // namespace WT_DEVICE_NS
}  // namespace wt
