// Copies from global to shared memory that bypass the registers: while a tile is being used, the
// next is under way.
#include <cuda_pipeline.h>

#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                         \
  if (const cudaError_t e = (call); e != cudaSuccess) {     \
    std::printf("async_copy: %s\n", cudaGetErrorString(e)); \
    return 1;                                               \
  }

constexpr int kThreads = 64, kTile = 4 * kThreads;

// Each block sums the squares of its stretch of the input, tile by tile.
__global__ void squares(const float* in, int tiles, float* out) {
  __shared__ __align__(16) float tile[2][kTile];
  __shared__ float sums[kThreads];
  const float* mine = in + size_t(blockIdx.x) * tiles * kTile;
  const auto fetch = [&](int t) {
    __pipeline_memcpy_async(&tile[t % 2][4 * threadIdx.x], &mine[t * kTile + 4 * threadIdx.x], 16);
    __pipeline_commit();
  };
  fetch(0);
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      fetch(t + 1);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    // Another thread's element: the barrier is needed, not only the wait.
    for (int j = 0; j < 4; ++j) {
      const float x = tile[t % 2][(threadIdx.x + kThreads / 2) % kThreads + j * kThreads];
      sum += x * x;
    }
    __syncthreads();
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads; ++i) sum += sums[i];
    out[blockIdx.x] = sum;
  }
}

// Copies of 4 and 8 bytes, and one that is filled up with zeros.
__global__ void pieces(const int* in, int* out) {
  __shared__ __align__(8) int s[6 * 32];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &in[31 - t], 4);
  __pipeline_memcpy_async(&s[32 + 2 * t], &in[2 * t], 8);
  __pipeline_memcpy_async(&s[96 + 2 * t], &in[2 * t], 8, t % 2 ? 0 : 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  for (int i = 0; i < 5; ++i) out[32 * i + t] = s[32 * i + t];
}

int main() {
  const int blocks = 3, tiles = 5, n = blocks * tiles * kTile;
  std::vector<float> in(n), sums(blocks);
  std::vector<int> words(n), got(160);
  for (int i = 0; i < n; ++i) {
    in[i] = float(i % 100) / 10;
    words[i] = 3 * i + 1;
  }
  float *din, *dout;
  CHECK(cudaMalloc(&din, n * sizeof(float)));
  CHECK(cudaMalloc(&dout, 160 * sizeof(float)));
  CHECK(cudaMemcpy(din, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  squares<<<blocks, kThreads>>>(din, tiles, dout);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(sums.data(), dout, blocks * sizeof(float), cudaMemcpyDeviceToHost));
  for (int b = 0; b < blocks; ++b) {
    double expected = 0;
    for (int i = 0; i < tiles * kTile; ++i) {
      expected += double(in[b * tiles * kTile + i]) * in[b * tiles * kTile + i];
    }
    if (std::fabs(sums[b] - expected) > 1e-5 * expected) {
      std::printf("async_copy: block %d gave %g instead of %g\n", b, sums[b], expected);
      return 1;
    }
  }
  CHECK(cudaMemcpy(din, words.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  pieces<<<1, 32>>>((const int*)din, (int*)dout);
  CHECK(cudaMemcpy(got.data(), dout, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 160; ++i) {
    int expected = words[i < 32 ? 31 - i : i < 96 ? i - 32 : i - 96];
    if (i >= 96 && i % 4 == 1) expected = 0;
    if (got[i] != expected) {
      std::printf("async_copy: piece %d is %d instead of %d\n", i, got[i], expected);
      return 1;
    }
  }
  std::printf("async_copy: ok\n");
}
