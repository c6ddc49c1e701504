// The sum of an array in four ways: a tree in shared memory, warp shuffles, one atomic a block, and
// a single launch whose last block adds what the others left.
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                        \
  if (const cudaError_t e = (call); e != cudaSuccess) {    \
    std::printf("reduction: %s\n", cudaGetErrorString(e)); \
    return 1;                                              \
  }

constexpr int kThreads = 256, kBlocks = 40;

__global__ void sum_tree(const float* in, int n, float* partial) {
  __shared__ float s[kThreads];
  float mine = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) mine += in[i];
  s[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = s[0];
}

__device__ float warp_sum(float x) {
  for (int d = warpSize / 2; d > 0; d /= 2) x += __shfl_down_sync(0xffffffff, x, d);
  return x;
}

__device__ float block_sum(float x) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  x = warp_sum(x);
  if (lane == 0) of_warp[warp] = x;
  __syncthreads();
  x = threadIdx.x < blockDim.x / warpSize ? of_warp[lane] : 0.0f;
  return warp == 0 ? warp_sum(x) : 0.0f;
}

__global__ void sum_atomic(const float* in, int n, float* total) {
  float mine = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) mine += in[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0) atomicAdd(total, mine);
}

__device__ unsigned int done = 0;

__global__ void sum_last_block(const float* in, int n, volatile float* partial, float* total) {
  __shared__ bool is_last;
  float mine = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) mine += in[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = mine;
    __threadfence();  // the partial sum is there before the count says so
    is_last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  mine = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0f;
  __syncthreads();
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    *total = mine;
    done = 0;
  }
}

int wrong(const char* how, float got, double expected) {
  if (std::fabs(got - expected) <= 1e-5 * expected) return 0;
  std::printf("reduction: %s gave %g instead of %g\n", how, got, expected);
  return 1;
}

int main() {
  const int n = 200001;
  std::vector<float> in(n);
  double expected = 0;
  for (int i = 0; i < n; ++i) {
    in[i] = float((i * 7919) % 1000) / 1000;
    expected += in[i];
  }
  float *din, *partial, *total;
  CHECK(cudaMalloc(&din, n * sizeof(float)));
  CHECK(cudaMalloc(&partial, kBlocks * sizeof(float)));
  CHECK(cudaMalloc(&total, sizeof(float)));
  CHECK(cudaMemcpy(din, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));

  float got = 0;
  sum_tree<<<kBlocks, kThreads>>>(din, n, partial);
  sum_tree<<<1, kThreads>>>(partial, kBlocks, total);
  CHECK(cudaMemcpy(&got, total, sizeof(float), cudaMemcpyDeviceToHost));
  if (wrong("the tree", got, expected)) return 1;

  CHECK(cudaMemset(total, 0, sizeof(float)));
  sum_atomic<<<kBlocks, kThreads>>>(din, n, total);
  CHECK(cudaMemcpy(&got, total, sizeof(float), cudaMemcpyDeviceToHost));
  if (wrong("atomics", got, expected)) return 1;

  for (int again = 0; again < 2; ++again) {  // the count of blocks must be back at zero
    sum_last_block<<<kBlocks, kThreads>>>(din, n, partial, total);
    CHECK(cudaMemcpy(&got, total, sizeof(float), cudaMemcpyDeviceToHost));
    if (wrong("the last block", got, expected)) return 1;
  }
  std::printf("reduction: ok\n");
}
