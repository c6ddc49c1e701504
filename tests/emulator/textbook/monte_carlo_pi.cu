// Pi by chance: each thread has a generator of its own. All is integer, so the count is exact.
#include <cstdio>

#define CHECK(call)                                             \
  if (const cudaError_t e = (call); e != cudaSuccess) {         \
    std::printf("monte_carlo_pi: %s\n", cudaGetErrorString(e)); \
    return 1;                                                   \
  }

__host__ __device__ unsigned int hits(unsigned long long seed, int tries) {
  unsigned long long state = seed * 0x9E3779B97F4A7C15ull + 1;
  unsigned int inside = 0;
  for (int i = 0; i < tries; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const unsigned int x = unsigned(state >> 48), y = unsigned(state >> 32) & 0xffff;
    inside += (unsigned long long)x * x + (unsigned long long)y * y < (1ull << 32);
  }
  return inside;
}

__global__ void sample(int tries, unsigned long long* total) {
  unsigned int inside = hits(blockIdx.x * blockDim.x + threadIdx.x, tries);
  for (int d = 16; d > 0; d /= 2) inside += __shfl_down_sync(0xffffffffu, inside, d);
  if (threadIdx.x % 32 == 0) atomicAdd(total, (unsigned long long)inside);
}

int main() {
  const int blocks = 8, threads = 128, tries = 200;
  unsigned long long *total, got = 0, expected = 0;
  CHECK(cudaMalloc(&total, sizeof *total));
  CHECK(cudaMemset(total, 0, sizeof *total));
  sample<<<blocks, threads>>>(tries, total);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&got, total, sizeof got, cudaMemcpyDeviceToHost));
  for (int t = 0; t < blocks * threads; ++t) expected += hits(t, tries);
  const double pi = 4.0 * double(got) / (blocks * threads * tries);
  if (got != expected || pi < 3.12 || pi > 3.16) {
    std::printf("monte_carlo_pi: %llu hits instead of %llu, pi %.4f\n", got, expected, pi);
    return 1;
  }
  std::printf("monte_carlo_pi: ok\n");
}
