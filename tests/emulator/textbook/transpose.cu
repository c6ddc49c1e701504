// A transpose through shared memory: both the loads and the stores are of neighbouring addresses,
// and the tile's extra column keeps the reads of a column out of one bank.
#include <cstdio>
#include <vector>

#define CHECK(call)                                        \
  if (const cudaError_t e = (call); e != cudaSuccess) {    \
    std::printf("transpose: %s\n", cudaGetErrorString(e)); \
    return 1;                                              \
  }

constexpr int kTile = 32, kRows = 8;

__global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[kTile][kTile + 1];
  int x = blockIdx.x * kTile + threadIdx.x;
  int y = blockIdx.y * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += kRows) {
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  }
  __syncthreads();
  x = blockIdx.y * kTile + threadIdx.x;
  y = blockIdx.x * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += kRows) {
    if (x < rows && y + j < columns) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
  }
}

int main() {
  const int rows = 161, columns = 203;
  std::vector<float> in(rows * columns), out(rows * columns);
  for (int i = 0; i < rows * columns; ++i) in[i] = float(i);
  float *din, *dout;
  CHECK(cudaMalloc(&din, in.size() * sizeof(float)));
  CHECK(cudaMalloc(&dout, in.size() * sizeof(float)));
  CHECK(cudaMemcpy(din, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice));
  const dim3 block(kTile, kRows);
  const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  transpose<<<grid, block>>>(din, dout, rows, columns);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      if (out[c * rows + r] != in[r * columns + c]) {
        std::printf("transpose: wrong at row %d, column %d\n", r, c);
        return 1;
      }
    }
  }
  cudaFree(din);
  cudaFree(dout);
  std::printf("transpose: ok\n");
}
