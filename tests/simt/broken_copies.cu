// Deliberately wrong asynchronous copies, one mistake each; see broken_kernels.cu.
#include "warptape/kernels/device/async_copy.cuh"
//
#include "warptape/kernels/attention/attention_mma.cuh"
#include "warptape/tests/simt/broken_kernels.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

__global__ void copy_without_wait(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + t);  // BUG copy_without_wait
  cp_async_commit();
  __syncthreads();
  o[t] = s[127 - t];  // BUG copy_without_wait_read
}
// Not even its own thread may.
__global__ void copy_used_at_once(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + t);  // BUG copy_used_at_once
  o[t] = s[t];                // BUG copy_used_at_once_read
  cp_async_commit();
  cp_async_wait<0>();
}
__global__ void copy_not_committed(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + t);  // BUG copy_not_committed
  cp_async_wait<0>();
  __syncthreads();
  o[t] = s[127 - t];  // BUG copy_not_committed_read
}
// Two groups, of which the younger may still be under way after the wait.
__global__ void copy_wrong_group(float* o, const float* x) {
  WT_SHARED(float, s, [2][128]);
  const int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    cp_async<4>(&s[k][t], x + k * 128 + t);  // BUG copy_wrong_group
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  o[t] = s[0][127 - t] + s[1][127 - t];  // BUG copy_wrong_group_read
}
__global__ void copy_without_barrier(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + t);  // BUG copy_without_barrier
  cp_async_commit();
  cp_async_wait<0>();
  o[t] = s[127 - t];  // BUG copy_without_barrier_read
}
// Two stages need a barrier between reading one and filling it again.
__global__ void copy_into_used_stage(float* o, const float* x) {
  WT_SHARED(float, s, [2][128]);
  const int t = threadIdx.x;
  float a = 0;
  cp_async<4>(&s[0][t], x + t);
  cp_async_commit();
  for (int k = 0; k < 4; ++k) {
    if (k < 3) cp_async<4>(&s[(k + 1) % 2][t], x + (k + 1) * 128 + t);  // BUG copy_into_used_stage
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    for (int j = 0; j < 128; ++j)
      a += s[k % 2][j] * float(j % 3 - 1);  // BUG copy_into_used_stage_read
  }
  o[t] = a;
}
__global__ void copy_misaligned_source(float* o, const float* x) {
  WT_SHARED(float, s, [512]);
  const int t = threadIdx.x;
  cp_async<16>(s + 4 * t, x + t);  // BUG copy_misaligned_source
  o[t] = x[t];
}
__global__ void copy_misaligned_target(float* o, const float* x) {
  WT_SHARED(float, s, [512]);
  const int t = threadIdx.x;
  cp_async<8>(s + 2 * t + 1, x + 2 * t);  // BUG copy_misaligned_target
  o[t] = x[t];
}
__global__ void copy_beyond_source(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + 512 - 127 + t);  // BUG copy_beyond_source
  o[t] = x[t];
}
__global__ void copy_beyond_array(float* o, const float* x) {
  WT_SHARED(float, s, [508]);
  const int t = threadIdx.x;
  cp_async<16>(s + 4 * t, x + 4 * t);  // BUG copy_beyond_array
  o[t] = x[t];
}
__global__ void copy_more_than_its_size(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  cp_async<4>(s + t, x + t, 8);  // BUG copy_more_than_its_size
  o[t] = x[t];
}
// A tile of attention's rung `pipelined`, its fragments taken without the wait of StageRing.
__global__ void tile_without_wait(float* o, const float* x) {
  using Tile = MmaVectors<__half, 32, 32>;
  WT_SHARED(Tile, tile, );
  tile.load<true>(reinterpret_cast<const __half*>(x), 32, 1, 0, 32, 32);
  cp_async_commit();
  __syncthreads();
  uint32_t r[4];
  tile.rows_of(r, 0, 0);
  o[threadIdx.x] = float(__builtin_bit_cast(Pack<__half, 2>, r[0]).v[0]);
  cp_async_wait<0>();
}

template <void (*Kernel)(float*, const float*)>
void run(float* o, const float* x) {
  launch<Kernel>({.grid = 1, .block = 128, .op_name = "broken"}, o, x);
}

}  // namespace

#define WT_BROKEN(kernel) \
  { #kernel, run < kernel> }
const BrokenKernel broken_copies[] = {
    WT_BROKEN(copy_without_wait),       WT_BROKEN(copy_used_at_once),
    WT_BROKEN(copy_not_committed),      WT_BROKEN(copy_wrong_group),
    WT_BROKEN(copy_without_barrier),    WT_BROKEN(copy_into_used_stage),
    WT_BROKEN(copy_misaligned_source),  WT_BROKEN(copy_misaligned_target),
    WT_BROKEN(copy_beyond_source),      WT_BROKEN(copy_beyond_array),
    WT_BROKEN(copy_more_than_its_size), WT_BROKEN(tile_without_wait),
};
const int broken_copy_count = int(sizeof broken_copies / sizeof broken_copies[0]);

}  // namespace WT_DEVICE_NS
}  // namespace wt
