// Counts of byte values: a table a block in shared memory, then one addition a block and value.
#include <cstdio>
#include <vector>

#define CHECK(call)                                        \
  if (const cudaError_t e = (call); e != cudaSuccess) {    \
    std::printf("histogram: %s\n", cudaGetErrorString(e)); \
    return 1;                                              \
  }

__global__ void histogram(const unsigned char* data, int n, unsigned int* counts) {
  __shared__ unsigned int mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  const int stride = gridDim.x * blockDim.x;
  // Four bytes a load; the bytes after the last whole word one by one.
  const uchar4* words = reinterpret_cast<const uchar4*>(data);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += stride) {
    const uchar4 w = words[i];
    atomicAdd(&mine[w.x], 1u);
    atomicAdd(&mine[w.y], 1u);
    atomicAdd(&mine[w.z], 1u);
    atomicAdd(&mine[w.w], 1u);
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) atomicAdd(&mine[data[n / 4 * 4 + threadIdx.x]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (mine[i] != 0) atomicAdd(&counts[i], mine[i]);
  }
}

int main() {
  const int n = 100003;
  std::vector<unsigned char> data(n);
  std::vector<unsigned int> expected(256), got(256);
  unsigned int state = 12345;
  for (unsigned char& d : data) {
    state = state * 1664525u + 1013904223u;
    d = (unsigned char)((state >> 24) & (state >> 16));  // low values are frequent
    ++expected[d];
  }
  unsigned char* ddata;
  unsigned int* counts;
  CHECK(cudaMalloc(&ddata, n));
  CHECK(cudaMalloc(&counts, 256 * sizeof(unsigned int)));
  CHECK(cudaMemcpy(ddata, data.data(), n, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(counts, 0, 256 * sizeof(unsigned int)));
  histogram<<<10, 192>>>(ddata, n, counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), counts, 256 * sizeof(unsigned int), cudaMemcpyDeviceToHost));
  if (got != expected) {
    std::printf("histogram: wrong counts\n");
    return 1;
  }
  std::printf("histogram: ok\n");
}
