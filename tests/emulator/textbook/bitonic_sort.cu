// Bitonic sort of pairs (key, place): a launch a step over all, the last steps in shared memory.
#include <algorithm>
#include <cstdio>
#include <vector>

#define CHECK(call)                                           \
  if (const cudaError_t e = (call); e != cudaSuccess) {       \
    std::printf("bitonic_sort: %s\n", cudaGetErrorString(e)); \
    return 1;                                                 \
  }

constexpr int kBlock = 512;

__device__ void order(int2& a, int2& b, bool up) {
  const bool greater = a.x > b.x || (a.x == b.x && a.y > b.y);
  if (greater == up) {
    const int2 t = a;
    a = b;
    b = t;
  }
}

__global__ void step(int2* data, int size, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ stride;
  if (other > i) order(data[i], data[other], (i & size) == 0);
}

__global__ void steps_in_block(int2* data, int size) {
  __shared__ int2 s[kBlock];
  const int t = threadIdx.x, i = blockIdx.x * kBlock + t;
  s[t] = data[i];
  __syncthreads();
  for (int stride = min(size, kBlock) / 2; stride > 0; stride /= 2) {
    const int other = t ^ stride;
    if (other > t) order(s[t], s[other], (i & size) == 0);
    __syncthreads();
  }
  data[i] = s[t];
}

int main() {
  const int n = 4096;
  std::vector<int2> data(n), expected(n);
  unsigned int state = 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1103515245u + 12345u;
    data[i] = {int(state >> 20) - 2048, i};  // keys repeat
  }
  expected = data;
  std::sort(expected.begin(), expected.end(),
            [](const int2& a, const int2& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  int2* d;
  CHECK(cudaMalloc(&d, n * sizeof(int2)));
  CHECK(cudaMemcpy(d, data.data(), n * sizeof(int2), cudaMemcpyHostToDevice));
  for (int size = 2; size <= n; size *= 2) {
    for (int stride = size / 2; stride >= kBlock; stride /= 2) {
      step<<<n / kBlock, kBlock>>>(d, size, stride);
    }
    steps_in_block<<<n / kBlock, kBlock>>>(d, size);
  }
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(data.data(), d, n * sizeof(int2), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    if (data[i].x != expected[i].x || data[i].y != expected[i].y) {
      std::printf("bitonic_sort: wrong at %d\n", i);
      return 1;
    }
  }
  std::printf("bitonic_sort: ok\n");
}
