// Deliberately wrong kernels, one mistake each. A comment "BUG tag" marks a line that a diagnosis
// must name; broken_kernels_test.cpp says what each flavour must find. All of it compiles with
// nvcc too.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/tests/simt/broken_kernels.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;

// --- Races ---

__global__ void missing_barrier(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  s[t] = x[t];        // BUG missing_barrier_write
  o[t] = s[127 - t];  // BUG missing_barrier_read
}
__global__ void missing_trailing_barrier(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  float a = 0;
  for (int k = 0; k < 4; ++k) {
    s[t] = x[k * 128 + t];  // BUG missing_trailing_barrier_write
    __syncthreads();
    for (int j = 0; j < 128; ++j)
      a += s[j] * float(j % 3 - 1);  // BUG missing_trailing_barrier_read
  }
  o[t] = a;
}
__global__ void plain_shared_add(float* o, const float* x) {
  WT_SHARED(float, s, [1]);
  const int t = threadIdx.x;
  if (t == 0) s[0] = 0;
  __syncthreads();
  s[0] += x[t];  // BUG plain_shared_add
  __syncthreads();
  o[t] = s[0];
}
__global__ void no_syncwarp(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  if (t < 32) {
    volatile float* v = s;
    v[t] = v[t] + v[t + 64] + v[t + 32] + v[t + 96];
    for (int d = 16; d > 0; d /= 2) v[t] = v[t] + v[t + d];  // BUG no_syncwarp
  }
  __syncthreads();
  o[t] = s[0];
}
__global__ void half_syncwarp(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  s[t] = x[t];  // BUG half_syncwarp_write
  if (t % 32 < 16)
    __syncwarp(0x0000ffffu);
  else
    __syncwarp(0xffff0000u);
  o[t] = s[t ^ 16];  // BUG half_syncwarp_read
}
__device__ float reduce_without_barrier(float v) {
  WT_SHARED(float, part, [4]);
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(kFull, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;  // BUG scratch_reused_write
  __syncthreads();
  return part[0] + part[1] + part[2] + part[3];  // BUG scratch_reused_read
}
__global__ void scratch_reused(float* o, const float* x) {
  const int t = threadIdx.x;
  const float a = reduce_without_barrier(x[t]), b = reduce_without_barrier(x[t] * 2);
  o[t] = b - a;
}
__global__ void two_blocks_add(float* o, const float* x) {
  o[threadIdx.x] += x[threadIdx.x];  // BUG two_blocks_add
}
__global__ void atomic_and_plain(float* o, const float* x) {
  WT_SHARED(float, s, [1]);
  const int t = threadIdx.x;
  if (t == 0) s[0] = 0;
  __syncthreads();
  if (t < 64)
    atomicAdd(&s[0], 1.0f);  // BUG atomic_and_plain_atomic
  else
    o[t] = s[0];  // BUG atomic_and_plain_read
  o[t] = x[t];
}
__global__ void ticket_without_fence(float* o, const float* x) {
  unsigned* ticket = reinterpret_cast<unsigned*>(o);
  o[1 + blockIdx.x] = x[blockIdx.x];  // BUG ticket_without_fence_write
  if (atomicAdd(ticket, 1u) == gridDim.x - 1)
    o[100] = o[1] + o[2];  // BUG ticket_without_fence_read
}

// --- Memory ---

__global__ void shared_off_by_one(float* o, const float* x) {
  WT_SHARED(float, s, [128]);  // BUG shared_off_by_one_array
  const int t = threadIdx.x;
  s[t + 1] = x[t];  // BUG shared_off_by_one
  __syncthreads();
  o[t] = t ? s[t] : x[127];
}
__global__ void shared_before_begin(float* o, const float* x) {
  WT_SHARED(float, first, [8]);
  WT_SHARED(float, second, [128]);  // BUG shared_before_begin_array
  const int t = threadIdx.x;
  if (t < 8) first[t] = 1;
  float* p = second;
  p[t - 1] = x[t];  // BUG shared_before_begin
  __syncthreads();
  o[t] = t < 127 ? second[t] : first[0];
}
__global__ void dynamic_overrun(float* o, const float* x) {
  WT_DYN_SHARED(float, s);
  const int t = threadIdx.x;
  s[t + 4] = x[t];  // BUG dynamic_overrun
  __syncthreads();
  o[t] = s[t + 4];
}
__global__ void row_overflow(float* o, const float* x) {
  WT_SHARED(float, s, [4][32]);
  const int t = threadIdx.x;
  s[t / 32][t % 32] = x[t];
  __syncthreads();
  const int c = t < 96 ? 32 + t % 32 : t % 32;
  o[t] = x[t] + 0 * s[t / 32][c];  // BUG row_overflow
}
__global__ void uninitialised_shared(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  const int t = threadIdx.x;
  if (t < 64) s[t] = x[t];
  __syncthreads();
  o[t] = s[t];
}
__global__ void global_read_beyond(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t] + 0 * x[t + 512 - 127];  // BUG global_read_beyond
}
__global__ void misaligned_load(float* o, const float* x) {
  const int t = threadIdx.x;
  const float4 v = vload<float4>(x + t);  // BUG misaligned_load
  o[t] = v.x;
}
__global__ void misaligned_store(float* o, const float* x) {
  vstore(o + 1, make_float2(x[0], x[1]));  // BUG misaligned_store
}
__global__ void null_pointer(float* o, const float* x, float* missing) {
  o[threadIdx.x] = x[threadIdx.x];
  missing[threadIdx.x] = 1;  // BUG null_pointer
}
__global__ void large_locals(float* o, const float* x) {  // BUG large_locals
  volatile float big[100000];
  const int t = threadIdx.x;
  for (int i = 0; i < 100000; i += 1000) big[i] = x[t];
  o[t] = big[99000];
}
__global__ void index_overflow(float* o, const float* x, int big) {
  const int t = threadIdx.x;
  const int i = (t + 1) * big;  // BUG index_overflow
  o[t] = x[unsigned(i) % 128u] * 0 + x[t];
}
__global__ void copy_kernel(float* o, const float* x) { o[threadIdx.x] = x[threadIdx.x]; }
__global__ void too_much_shared(float* o, const float* x) {
  WT_SHARED(float, huge, [12000]);  // 46.9 KiB
  WT_SHARED(float, more, [400]);    // BUG too_much_shared
  huge[threadIdx.x] = more[threadIdx.x] = x[threadIdx.x];
  o[threadIdx.x] = huge[threadIdx.x] + more[threadIdx.x];
}

// --- Barriers ---

__global__ void barrier_of_half(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t];
  if (t < 64) __syncthreads();  // BUG barrier_of_half
}
__global__ void two_barriers(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t];
  if (t < 64)
    __syncthreads();  // BUG two_barriers_first
  else
    __syncthreads();  // BUG two_barriers_second
}
__global__ void return_before_barrier(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t];
  if (t >= 100) return;
  __syncthreads();  // BUG return_before_barrier
}
__global__ void barrier_count(float* o, const float* x) {
  const int t = threadIdx.x;
  for (int i = 0; i < 2 + (t == 5); ++i) __syncthreads();  // BUG barrier_count
  o[t] = x[t];
}
__global__ void barrier_against_shuffle(float* o, const float* x) {
  const int t = threadIdx.x;
  float v = x[t];
  if (t % 32 < 16) v += __shfl_xor_sync(kFull, v, 1);  // BUG barrier_against_shuffle_shfl
  __syncthreads();                                     // BUG barrier_against_shuffle_barrier
  o[t] = v;
}
__global__ void dead_lock(float* o, const float* x) {
  WT_SHARED(unsigned, lock, [1]);
  const int t = threadIdx.x;
  if (t == 0) lock[0] = 1;
  __syncthreads();
  while (atomicCAS(&lock[0], 0u, 1u) != 0u) {  // BUG dead_lock
  }
  o[t] = x[t];
}
__global__ void grid_barrier(float* o, const float* x) {
  unsigned* arrived = reinterpret_cast<unsigned*>(o);
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicCAS(arrived, gridDim.x, gridDim.x) != gridDim.x) {  // BUG grid_barrier
    }
  }
  __syncthreads();
  o[threadIdx.x + 1] = x[threadIdx.x];
}

// --- Warps ---

__global__ void shuffle_of_half(float* o, const float* x) {
  const int t = threadIdx.x;
  float v = x[t];
  if (t % 32 < 16)
    v += __shfl_xor_sync(kFull, v, 1);  // BUG shuffle_of_half_shfl
  else
    __syncwarp();  // BUG shuffle_of_half_sync
  o[t] = v;
}
__global__ void lane_outside_mask(float* o, const float* x) {
  const int t = threadIdx.x;
  float v = x[t];
  if (t % 32 < 16) v = __shfl_down_sync(0x0000ffffu, v, 8);  // BUG lane_outside_mask
  o[t] = v;
}
__global__ void caller_outside_mask(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = __shfl_xor_sync(0x0000ffffu, x[t], 1);  // BUG caller_outside_mask
}
__global__ void lanes_left_loop(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t];
  for (int i = t; i < 100; i += 128) {
    float v = x[i];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(kFull, v, d);  // BUG lanes_left_loop
    if (t % 32 == 0) o[t] = v;
  }
}
__global__ void overlapping_masks(float* o, const float* x) {
  const int t = threadIdx.x;
  const unsigned mask = t % 32 < 16 ? 0x0001ffffu : 0xffff0000u;
  o[t] = float(__ballot_sync(mask, x[t] > 0));  // BUG overlapping_masks
  __syncthreads();
}
__global__ void mma_of_31_lanes(float* o, const float* x) {
  const int t = threadIdx.x;
  o[t] = x[t];
  if (t % 32 == 31) return;
  float d[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  mma_m16n8k16<__half>(d, a, b);  // BUG mma_of_31_lanes
  o[t] += d[0];
}
__global__ void ldmatrix_of_global(float* o, const float* x) {
  uint32_t r[1];
  ldmatrix<1>(r, x);  // BUG ldmatrix_of_global
  o[threadIdx.x] = float(r[0]);
}
__global__ void ldmatrix_misaligned(float* o, const float* x) {
  WT_SHARED(float, s, [128]);
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  uint32_t r[1];
  ldmatrix<1>(r, s + threadIdx.x % 8);  // BUG ldmatrix_misaligned
  o[threadIdx.x] = float(r[0]);
}
__global__ void trap(float* o, const float* x) {
  if (threadIdx.x == 77) __trap();  // BUG trap
  o[threadIdx.x] = x[threadIdx.x];
}

template <void (*Kernel)(float*, const float*), unsigned Blocks = 1, size_t Shared = 0>
void run(float* o, const float* x) {
  launch<Kernel>({.grid = Blocks, .block = 128, .shared_bytes = Shared, .op_name = "broken"}, o, x);
}

}  // namespace

#define WT_BROKEN(kernel) \
  { #kernel, run < kernel> }
const BrokenKernel broken_kernels[] = {
    WT_BROKEN(missing_barrier),
    WT_BROKEN(missing_trailing_barrier),
    WT_BROKEN(plain_shared_add),
    WT_BROKEN(no_syncwarp),
    WT_BROKEN(half_syncwarp),
    WT_BROKEN(scratch_reused),
    {"two_blocks_add", run<two_blocks_add, 2>},
    WT_BROKEN(atomic_and_plain),
    {"ticket_without_fence",
     [](float* o, const float* x) { launch<ticket_without_fence>({.grid = 2, .block = 1}, o, x); }},
    WT_BROKEN(shared_off_by_one),
    WT_BROKEN(shared_before_begin),
    {"dynamic_overrun", run<dynamic_overrun, 1, 512>},
    WT_BROKEN(row_overflow),
    WT_BROKEN(uninitialised_shared),
    WT_BROKEN(global_read_beyond),
    WT_BROKEN(misaligned_load),
    WT_BROKEN(misaligned_store),
    {"null_pointer",
     [](float* o, const float* x) {
       launch<null_pointer>({.grid = 1, .block = 128}, o, x, nullptr);
     }},
    WT_BROKEN(large_locals),
    {"index_overflow",
     [](float* o, const float* x) {
       launch<index_overflow>({.grid = 1, .block = 128}, o, x, 1 << 30);
     }},
    {"host_pointer",
     [](float* o, const float*) {
       float host[128] = {};
       launch<copy_kernel>({.grid = 1, .block = 128, .op_name = "copy"}, o, host);
     }},
    {"large_block",
     [](float* o, const float* x) {
       launch<copy_kernel>({.grid = 1, .block = dim3(64, 17)}, o, x);
     }},
    WT_BROKEN(too_much_shared),
    WT_BROKEN(barrier_of_half),
    WT_BROKEN(two_barriers),
    WT_BROKEN(return_before_barrier),
    WT_BROKEN(barrier_count),
    WT_BROKEN(barrier_against_shuffle),
    WT_BROKEN(dead_lock),
    {"grid_barrier", run<grid_barrier, 3>},
    WT_BROKEN(shuffle_of_half),
    WT_BROKEN(lane_outside_mask),
    WT_BROKEN(caller_outside_mask),
    WT_BROKEN(lanes_left_loop),
    WT_BROKEN(overlapping_masks),
    WT_BROKEN(mma_of_31_lanes),
    WT_BROKEN(ldmatrix_of_global),
    WT_BROKEN(ldmatrix_misaligned),
    WT_BROKEN(trap),
};
const int broken_kernel_count = int(sizeof broken_kernels / sizeof broken_kernels[0]);

}  // namespace WT_DEVICE_NS
}  // namespace wt
