// An assertion that holds costs nothing to the result; one that fails ends the context.
#include <cassert>
#include <cstdio>

__global__ void check(const int* x, int limit) { assert(x[threadIdx.x] < limit); }

int main() {
  const int values[4] = {1, 2, 3, 4};
  int* x;
  if (cudaMalloc(&x, sizeof values) != cudaSuccess) return 1;
  cudaMemcpy(x, values, sizeof values, cudaMemcpyHostToDevice);
  check<<<1, 4>>>(x, 5);
  if (const cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) {
    std::printf("device_assert: a true assertion: %s\n", cudaGetErrorString(e));
    return 1;
  }
  check<<<1, 4>>>(x, 4);  // writes the failed line to stderr
  const cudaError_t failed = cudaDeviceSynchronize();
  const cudaError_t after = cudaMemset(x, 0, sizeof values);
  if (failed != cudaErrorAssert || after != cudaErrorAssert) {
    std::printf("device_assert: a false assertion gave '%s', then '%s'\n",
                cudaGetErrorString(failed), cudaGetErrorString(after));
    return 1;
  }
  std::printf("device_assert: ok\n");
}
