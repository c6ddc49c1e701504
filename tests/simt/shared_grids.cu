// Grids whose blocks several OS threads run.
#include "warptape/kernels/simt/simt.h"
//
#include <ctime>

#include "warptape/tests/simt/shared_grids.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

__global__ void ordered_atomics_kernel(float* total, unsigned* order, unsigned* ticket) {
  WT_SHARED(unsigned, arrived, );
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  atomicAdd(&arrived, 1u);
  __syncthreads();
  atomicAdd(total, 1.0f / float(1 + blockIdx.x * blockDim.x + threadIdx.x));
  if (threadIdx.x == 0 && arrived == blockDim.x) order[atomicAdd(ticket, 1u)] = blockIdx.x;
}

__global__ void os_threads_kernel(unsigned long long* seen, double seconds) {
#if !defined(__CUDACC__)
  if (threadIdx.x != 0) return;
  const auto mine = reinterpret_cast<unsigned long long>(&threadIdx);
  __atomic_store_n(&seen[blockIdx.x], mine, __ATOMIC_RELAXED);
  for (const std::time_t end = std::time(nullptr) + std::time_t(seconds); std::time(nullptr) < end;)
    for (unsigned i = 0; i < gridDim.x; ++i) {
      const unsigned long long other = __atomic_load_n(&seen[i], __ATOMIC_RELAXED);
      if (other != 0 && other != mine) return;
    }
#endif
}

__global__ void two_traps_kernel(unsigned* done, unsigned first, unsigned second) {
  if (blockIdx.x == first || blockIdx.x == second) __trap();
  if (threadIdx.x == 0) done[blockIdx.x] = 1;
}

}  // namespace

void test_ordered_atomics(float* total, unsigned* order, unsigned* ticket, int blocks) {
  launch<ordered_atomics_kernel>({.grid = unsigned(blocks), .block = kSharedGridThreads}, total,
                                 order, ticket);
}
void test_os_threads(unsigned long long* seen, int blocks, double seconds) {
  launch<os_threads_kernel>({.grid = unsigned(blocks), .block = kSharedGridThreads}, seen, seconds);
}
void test_two_traps(unsigned* done, int blocks, unsigned first, unsigned second) {
  launch<two_traps_kernel>({.grid = unsigned(blocks), .block = kSharedGridThreads}, done, first,
                           second);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
