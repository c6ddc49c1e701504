// Loops that step by the size of the grid, which is chosen by what the device says of itself.
#include <algorithm>
#include <cstdio>
#include <vector>

#define CHECK(call)                                          \
  if (const cudaError_t e = (call); e != cudaSuccess) {      \
    std::printf("grid_stride: %s\n", cudaGetErrorString(e)); \
    return 1;                                                \
  }

__global__ void saxpy(size_t n, float a, const float* __restrict__ x, float* __restrict__ y) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    y[i] = a * x[i] + y[i];
}

// Four at a time; the pointers are aligned, the rest is done by the first threads.
__global__ void scale4(int n, float a, float* x) {
  const int i0 = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  float4* x4 = reinterpret_cast<float4*>(x);
  for (int i = i0; i < n / 4; i += stride) {
    float4 v = x4[i];
    v.x *= a;
    v.y *= a;
    v.z *= a;
    v.w *= a;
    x4[i] = v;
  }
  for (int i = n / 4 * 4 + i0; i < n; i += stride) x[i] *= a;
}

int main() {
  int devices = 0, device = -1, processors = 0, warp = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  CHECK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device));
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, device));
  if (devices < 1 || warp != 32 || prop.warpSize != 32 || prop.major < 7 || processors < 1 ||
      prop.multiProcessorCount != processors || prop.maxThreadsPerBlock != 1024) {
    std::printf("grid_stride: %s is a strange device\n", prop.name);
    return 1;
  }
  int least_blocks = 0, threads = 0, resident = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&least_blocks, &threads, saxpy));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, saxpy, threads, 0));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, saxpy));
  size_t free_bytes = 0, total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (threads < 32 || threads > attributes.maxThreadsPerBlock || resident < 1 || least_blocks < 1 ||
      attributes.numRegs < 1 || free_bytes > total_bytes || attributes.sharedSizeBytes != 0) {
    std::printf("grid_stride: strange advice: %d blocks of %d threads\n", least_blocks, threads);
    return 1;
  }
  const int n = 150003, blocks = std::min(least_blocks, 16);
  std::vector<float> x(n), y(n), got(n);
  for (int i = 0; i < n; ++i) {
    x[i] = float(i % 1000);
    y[i] = float(i % 7);
  }
  float *dx, *dy;
  CHECK(cudaMalloc(&dx, n * sizeof(float)));
  CHECK(cudaMalloc(&dy, n * sizeof(float)));
  CHECK(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<blocks, threads>>>(n, 3.0f, dx, dy);
  scale4<<<3, 64>>>(n, 2.0f, dy);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    if (got[i] != 2 * (3 * x[i] + y[i])) {
      std::printf("grid_stride: wrong at %d\n", i);
      return 1;
    }
  }
  std::printf("grid_stride: ok\n");
}
