// Mistakes that CUDA reports and survives.
#include <cstdio>
#include <cstring>

__global__ void nothing() {}

int expect(cudaError_t expected, cudaError_t got, const char* what) {
  if (got == expected) return 0;
  std::printf("errors: %s: %s instead of %s\n", what, cudaGetErrorName(got),
              cudaGetErrorName(expected));
  return 1;
}

int main() {
  int bad = 0;
  nothing<<<1, 2048>>>();
  bad += expect(cudaErrorInvalidConfiguration, cudaPeekAtLastError(), "2048 threads, a look");
  bad += expect(cudaErrorInvalidConfiguration, cudaGetLastError(), "2048 threads");
  bad += expect(cudaSuccess, cudaGetLastError(), "asked again");
  nothing<<<0, 32>>>();
  bad += expect(cudaErrorInvalidConfiguration, cudaGetLastError(), "no blocks");
  nothing<<<dim3(1, 70000), 32>>>();
  bad += expect(cudaErrorInvalidConfiguration, cudaGetLastError(), "70000 blocks in y");
  nothing<<<1, dim3(1, 1, 65)>>>();
  bad += expect(cudaErrorInvalidConfiguration, cudaGetLastError(), "65 threads in z");
  nothing<<<1, 32, 1 << 20>>>();
  bad += expect(cudaErrorInvalidValue, cudaGetLastError(), "1 MB of shared memory");
  nothing<<<1, 1024>>>();
  bad += expect(cudaSuccess, cudaGetLastError(), "1024 threads");

  void* p = nullptr;
  bad += expect(cudaErrorMemoryAllocation, cudaMalloc(&p, size_t(1) << 50), "a petabyte");
  bad += expect(cudaErrorMemoryAllocation, cudaGetLastError(), "a petabyte, asked again");
  bad += expect(cudaSuccess, cudaMalloc(&p, 16), "16 bytes");
  int local = 0;
  bad += expect(cudaErrorInvalidMemcpyDirection,
                cudaMemcpy(p, &local, 4, static_cast<cudaMemcpyKind>(9)), "direction 9");
  bad += expect(cudaErrorInvalidValue, cudaMemcpy(nullptr, &local, 4, cudaMemcpyHostToDevice),
                "a copy to nowhere");
  bad += expect(cudaSuccess, cudaFree(nullptr), "freeing nothing");
  bad += expect(cudaSuccess, cudaFree(p), "freeing");
  bad += expect(cudaErrorInvalidDevice, cudaSetDevice(1000), "device 1000");
  cudaGetLastError();
  bad += expect(cudaSuccess, cudaDeviceSynchronize(), "the end");
  if (std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") != 0 ||
      std::strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") != 0) {
    std::printf("errors: the words for cudaErrorInvalidValue\n");
    return 1;
  }
  if (bad) return 1;
  std::printf("errors: ok\n");
}
