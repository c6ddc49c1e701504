// A cooperative launch: all blocks run at once, and grid.sync() lets each wait for all. Heat
// spreads along a rod, many steps in one kernel.
#include <cooperative_groups.h>

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace cg = cooperative_groups;

#define CHECK(call)                                        \
  if (const cudaError_t e = (call); e != cudaSuccess) {    \
    std::printf("grid_sync: %s\n", cudaGetErrorString(e)); \
    return 1;                                              \
  }

__global__ void heat(float* a, float* b, int n, int steps, float* largest_change) {
  const cg::grid_group grid = cg::this_grid();
  for (int s = 0; s < steps; ++s) {
    for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) {
      const float left = i > 0 ? a[i - 1] : 1.0f, right = i < n - 1 ? a[i + 1] : 0.0f;
      b[i] = a[i] + 0.25f * (left - 2 * a[i] + right);
      if (s == steps - 1) {
        // Not negative, so the bits compare as the numbers do.
        atomicMax(reinterpret_cast<int*>(largest_change), __float_as_int(fabsf(b[i] - a[i])));
      }
    }
    grid.sync();
    float* t = a;
    a = b;
    b = t;
  }
}

int main() {
  int device = 0, cooperative = 0, resident = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, heat, 64, 0));
  if (!cooperative || resident < 1) {
    std::printf("grid_sync: the device cannot launch cooperatively\n");
    return 1;
  }
  int n = 500, steps = 60;
  std::vector<float> a(n, 0), b(n, 0), got(n);
  float *da, *db, *change;
  CHECK(cudaMalloc(&da, n * sizeof(float)));
  CHECK(cudaMalloc(&db, n * sizeof(float)));
  CHECK(cudaMalloc(&change, sizeof(float)));
  CHECK(cudaMemset(da, 0, n * sizeof(float)));
  CHECK(cudaMemset(change, 0, sizeof(float)));
  void* args[] = {&da, &db, &n, &steps, &change};
  CHECK(cudaLaunchCooperativeKernel((void*)heat, dim3(6), dim3(64), args, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  float got_change = 0, expected_change = 0;
  CHECK(cudaMemcpy(got.data(), steps % 2 ? db : da, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&got_change, change, sizeof(float), cudaMemcpyDeviceToHost));
  for (int s = 0; s < steps; ++s) {
    expected_change = 0;
    for (int i = 0; i < n; ++i) {
      const float left = i > 0 ? a[i - 1] : 1.0f, right = i < n - 1 ? a[i + 1] : 0.0f;
      b[i] = a[i] + 0.25f * (left - 2 * a[i] + right);
      expected_change = std::fmax(expected_change, std::fabs(b[i] - a[i]));
    }
    std::swap(a, b);
  }
  for (int i = 0; i < n; ++i) {
    if (std::fabs(got[i] - a[i]) > 1e-5f) {
      std::printf("grid_sync: %g instead of %g at %d\n", got[i], a[i], i);
      return 1;
    }
  }
  if (std::fabs(got_change - expected_change) > 1e-5f) {
    std::printf("grid_sync: changed by %g instead of %g\n", got_change, expected_change);
    return 1;
  }
  std::printf("grid_sync: ok\n");
}
