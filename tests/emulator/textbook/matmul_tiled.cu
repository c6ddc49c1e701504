// A matrix product with tiles in dynamic shared memory, more of it than the 48 KB that a kernel
// gets without asking. Each thread makes a 4 x 4 patch of the 64 x 64 tile of its block.
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                           \
  if (const cudaError_t e = (call); e != cudaSuccess) {       \
    std::printf("matmul_tiled: %s\n", cudaGetErrorString(e)); \
    return 1;                                                 \
  }

constexpr int kTile = 64, kDepth = 112, kPatch = 4;
constexpr int kShared = 2 * kTile * kDepth * int(sizeof(float));  // 56 KB

__global__ void __launch_bounds__(256)
    matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  extern __shared__ float shared[];
  float* a_tile = shared;                   // [kTile][kDepth]
  float* b_tile = shared + kTile * kDepth;  // [kDepth][kTile]
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[kPatch][kPatch] = {};
  for (int p = 0; p < k; p += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
      const int ar = row + i / kDepth, ac = p + i % kDepth;
      const int br = p + i / kTile, bc = column + i % kTile;
      a_tile[i] = ar < m && ac < k ? a[ar * k + ac] : 0.0f;
      b_tile[i] = br < k && bc < n ? b[br * n + bc] : 0.0f;
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      float x[kPatch], y[kPatch];
      for (int i = 0; i < kPatch; ++i) x[i] = a_tile[(ty + 16 * i) * kDepth + d];
      for (int j = 0; j < kPatch; ++j) y[j] = b_tile[d * kTile + tx + 16 * j];
      for (int i = 0; i < kPatch; ++i) {
        for (int j = 0; j < kPatch; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPatch; ++i) {
    for (int j = 0; j < kPatch; ++j) {
      const int r = row + ty + 16 * i, s = column + tx + 16 * j;
      if (r < m && s < n) c[r * n + s] = sum[i][j];
    }
  }
}

int main() {
  const int m = 100, n = 90, k = 150;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (int i = 0; i < m * k; ++i) a[i] = float((i * 13) % 29 - 14) / 8;
  for (int i = 0; i < k * n; ++i) b[i] = float((i * 7) % 31 - 15) / 16;
  float *da, *db, *dc;
  CHECK(cudaMalloc(&da, a.size() * sizeof(float)));
  CHECK(cudaMalloc(&db, b.size() * sizeof(float)));
  CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
  CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);

  matmul<<<grid, 256, kShared>>>(da, db, dc, m, n, k);  // nobody asked: it must not run
  if (cudaGetLastError() == cudaSuccess) {
    std::printf("matmul_tiled: 56 KB of shared memory were given without being asked for\n");
    return 1;
  }
  CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  matmul<<<grid, 256, kShared>>>(da, db, dc, m, n, k);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int r = 0; r < m; ++r) {
    for (int s = 0; s < n; ++s) {
      double sum = 0;
      for (int d = 0; d < k; ++d) sum += double(a[r * k + d]) * b[d * n + s];
      if (std::fabs(sum - c[r * n + s]) > 1e-4) {
        std::printf("matmul_tiled: %g instead of %g at %d, %d\n", c[r * n + s], sum, r, s);
        return 1;
      }
    }
  }
  std::printf("matmul_tiled: ok\n");
}
