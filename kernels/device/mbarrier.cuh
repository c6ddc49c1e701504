// mbarrier: a barrier in shared memory that counts arrivals of threads and bytes of TMA. Threads
// that arrive go on; only who needs what the others did waits. __syncthreads stops all for all:
// with it a producer could not run ahead of those that compute.
//
//   WT_SHARED(Mbarrier, full, [kStages]);
//   if (threadIdx.x == 0) { mbarrier_init(&full[s], 1); ...; mbarrier_init_fence(); }
//   __syncthreads();
//   producer, one thread:  mbarrier_arrive_expect(&full[s], bytes); tma_load_2d(..., &full[s]);
//   consumers:             mbarrier_wait(&full[s], parity);
//
// A phase ends when `arrivals` threads have arrived and all expected bytes have landed, and the
// next one begins at once with the same count. wait(parity) returns when the phase of that parity
// has ended: of the first phase 0, of the second 1, and so on in turn. On a new barrier wait(1)
// returns at once, as if a phase had ended before the first: a stage that was never filled is
// empty. Two phases on a parity means the other one again, so nobody may fall two phases behind.
//
// sm_90 and newer, and simt (docs/simt.md).
#pragma once
#include "warptape/kernels/simt/simt.h"
#if !defined(__CUDACC__)
#include "warptape/kernels/simt/hopper.h"
#endif

// 1 where the code that is compiled may use what sm_90a has: mbarrier, TMA, wgmma. Of a kernel for
// other architectures nothing is left but a trap, which why_not keeps from being reached.
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WT_HAS_HOPPER 1
#else
#define WT_HAS_HOPPER 0
#endif

namespace wt {
inline namespace WT_DEVICE_NS {

struct alignas(8) Mbarrier {
  uint64_t bits;
};

#if defined(__CUDACC__)

#if WT_HAS_HOPPER

// By one thread, before the others know of it: __syncthreads between this and any use.
__device__ __forceinline__ void mbarrier_init(Mbarrier* b, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals)
               : "memory");
}
// After the last init, by the same thread: TMA goes another way to shared memory than a thread's
// stores and would else find what was there before them.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::
                   : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
// Arrives, after saying that so many bytes more belong to this phase. Before the loads are asked
// for, or a phase could end between two of them.
__device__ __forceinline__ void mbarrier_arrive_expect(Mbarrier* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
               "r"(bytes)
               : "memory");
}
// The same without arriving.
__device__ __forceinline__ void mbarrier_expect(Mbarrier* b, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)),
               "r"(bytes)
               : "memory");
}
// Whether the phase has ended; looks for a while, which the hardware decides.
__device__ __forceinline__ bool mbarrier_try_wait(Mbarrier* b, unsigned parity) {
  unsigned ended;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.b32 %0, 1, 0, p;\n\t}"
      : "=r"(ended)
      : "r"(shared_address(b)), "r"(parity)
      : "memory");
  return ended;
}
__device__ __forceinline__ void mbarrier_wait(Mbarrier* b, unsigned parity) {
  while (!mbarrier_try_wait(b, parity)) {}
}

#endif

#else

WT_FN void mbarrier_init(Mbarrier* b, unsigned arrivals, Loc at = Loc::current()) {
  exec_mbarrier_init(b, arrivals, at);
}
WT_FN void mbarrier_init_fence() { exec_mbarrier_init_fence(); }
WT_FN void mbarrier_arrive(Mbarrier* b, Loc at = Loc::current()) {
  exec_mbarrier_arrive(b, 0, true, at);
}
WT_FN void mbarrier_arrive_expect(Mbarrier* b, unsigned bytes, Loc at = Loc::current()) {
  exec_mbarrier_arrive(b, bytes, true, at);
}
WT_FN void mbarrier_expect(Mbarrier* b, unsigned bytes, Loc at = Loc::current()) {
  exec_mbarrier_arrive(b, bytes, false, at);
}
WT_FN bool mbarrier_try_wait(Mbarrier* b, unsigned parity, Loc at = Loc::current()) {
  return exec_mbarrier_try_wait(b, parity, at);
}
WT_FN void mbarrier_wait(Mbarrier* b, unsigned parity, Loc at = Loc::current()) {
  exec_mbarrier_wait(b, parity, at);
}

#endif

}  // namespace WT_DEVICE_NS
}  // namespace wt
