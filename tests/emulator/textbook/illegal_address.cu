// A store through a null pointer: the launch succeeds, what waits for it says what happened.
#include <cstdio>

struct Matrix {
  float* data;
  int rows, columns;
};

__global__ void fill(Matrix m, float value) {
  const int r = blockIdx.x, c = threadIdx.x;
  if (r < m.rows && c < m.columns) m.data[r * m.columns + c] = value;
}

int main() {
  const Matrix forgotten = {nullptr, 2, 8};
  fill<<<2, 32>>>(forgotten, 1);
  const cudaError_t failed = cudaDeviceSynchronize();
  void* p = nullptr;
  const cudaError_t after = cudaMalloc(&p, 16);
  if (failed != cudaErrorIllegalAddress || after != cudaErrorIllegalAddress) {
    std::printf("illegal_address: got '%s', then '%s'\n", cudaGetErrorString(failed),
                cudaGetErrorString(after));
    return 1;
  }
  std::printf("illegal_address: ok\n");
}
