// Faults within a block and a warp: barriers, votes, asynchronous copies, tensor cores.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <cstring>

#include "faults.h"

namespace {

__global__ void reverse(float* p) {
  __shared__ float room[256];
  room[threadIdx.x] = p[threadIdx.x];
  p[threadIdx.x] = room[255 - threadIdx.x];  // no __syncthreads() before
}
int missing_syncthreads() {
  reverse<<<1, 256>>>(take_zeros(256));
  return wait();
}
__global__ void sum_tree(float* p) {
  __shared__ float room[256];
  room[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (threadIdx.x < unsigned(half)) room[threadIdx.x] += room[threadIdx.x + half];
    if (half > 64) __syncthreads();  // as if only the first step needed one
  }
  p[threadIdx.x] = room[0];
}
int one_syncthreads_too_few() {
  sum_tree<<<1, 256>>>(take_zeros(256));
  return wait();
}
__global__ void half_waits(float* p) {
  if (threadIdx.x < 16) {
    __syncthreads();
    p[threadIdx.x] = 1;
  } else {
    p[threadIdx.x] = 2;
    __syncthreads();
  }
}
int diverged_syncthreads() {
  half_waits<<<1, 32>>>(take_zeros(32));
  return wait();
}
__global__ void waits_for_ever(float* p) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
  p[threadIdx.x] = 1;
}
int barrier_without_partner() {
  waits_for_ever<<<1, 64>>>(take_zeros(64));
  return wait();
}
__global__ void wrong_mask(float* p) {
  p[threadIdx.x] = __shfl_sync(0x0000ffffu, p[threadIdx.x], 3);  // lanes 16 to 31 are not named
}
int member_mask() {
  wrong_mask<<<1, 32>>>(take_zeros(32));
  return wait();
}
__global__ void lanes_missing(float* p) {
  if (threadIdx.x < 16)
    p[threadIdx.x] = __shfl_down_sync(0xffffffffu, p[threadIdx.x], 1);
  else
    __syncwarp();  // where the others do not come
}
int shuffle_without_partner() {
  lanes_missing<<<1, 32>>>(take_zeros(32));
  return wait();
}

__global__ void staged(const float* p, float* out) {
  __shared__ float room[64];
  __pipeline_memcpy_async(room + threadIdx.x, p + threadIdx.x, 4);
  __pipeline_commit();
  // __pipeline_wait_prior(0) is missing.
  __syncthreads();
  out[threadIdx.x] = room[63 - threadIdx.x];
}
int missing_async_wait() {
  float *p = take_zeros(64), *out = take_zeros(64);
  staged<<<1, 64>>>(p, out);
  return differs(out, 64, 0);
}

// out[16, 8] = a[16, 16] b[16, 8], with the second and third register of a swapped.
__global__ void swapped_fragment(const __half* a, const __half* b, float* out) {
  const int lane = int(threadIdx.x), row = lane / 4, col = lane % 4 * 2;
  unsigned A[4], B[2];
  const auto pair = [](const __half* p, int step) {
    const __half2 h = __halves2half2(p[0], p[step]);
    unsigned u;
    memcpy(&u, &h, 4);
    return u;
  };
  A[0] = pair(a + row * 16 + col, 1);
  A[2] = pair(a + (row + 8) * 16 + col, 1);  // belongs into A[1]
  A[1] = pair(a + row * 16 + col + 8, 1);
  A[3] = pair(a + (row + 8) * 16 + col + 8, 1);
  B[0] = pair(b + col * 8 + row, 8);
  B[1] = pair(b + (col + 8) * 8 + row, 8);
  float c[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  out[row * 8 + col] = c[0];
  out[row * 8 + col + 1] = c[1];
  out[(row + 8) * 8 + col] = c[2];
  out[(row + 8) * 8 + col + 1] = c[3];
}
int wrong_fragment() {
  __half a[256], b[128], *da = nullptr, *db = nullptr;
  for (int i = 0; i < 256; ++i) a[i] = __float2half(i / 16 < 8 ? 1.f : 2.f);  // rows differ
  for (int i = 0; i < 128; ++i) b[i] = __float2half(i / 8 < 8 ? 1.f : 3.f);   // so do halves of k
  cudaMalloc(&da, sizeof a);
  cudaMalloc(&db, sizeof b);
  cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
  float* out = take(128);
  swapped_fragment<<<1, 32>>>(da, db, out);
  return differs(out, 64, 32) || differs(out + 64, 64, 64);
}

}  // namespace

const Fault sync_faults[] = {{"missing_syncthreads", missing_syncthreads},
                             {"one_syncthreads_too_few", one_syncthreads_too_few},
                             {"diverged_syncthreads", diverged_syncthreads},
                             {"barrier_without_partner", barrier_without_partner},
                             {"member_mask", member_mask},
                             {"shuffle_without_partner", shuffle_without_partner},
                             {"missing_async_wait", missing_async_wait},
                             {"wrong_fragment", wrong_fragment},
                             {nullptr, nullptr}};
