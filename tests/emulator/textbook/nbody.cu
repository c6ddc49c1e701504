// Gravity between all pairs of bodies: tiles of positions in shared memory, 1/sqrt approximated.
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                     \
  if (const cudaError_t e = (call); e != cudaSuccess) { \
    std::printf("nbody: %s\n", cudaGetErrorString(e));  \
    return 1;                                           \
  }

constexpr int kTile = 128;
constexpr float kSoftening = 1e-3f, kStep = 0.01f;

__global__ void accelerate(const float4* __restrict__ position, float3* velocity, int n) {
  __shared__ float4 tile[kTile];
  const int i = blockIdx.x * kTile + threadIdx.x;
  const float4 me = i < n ? position[i] : make_float4(0, 0, 0, 0);
  float3 a = make_float3(0, 0, 0);
  for (int base = 0; base < n; base += kTile) {
    const int j = base + threadIdx.x;
    tile[threadIdx.x] = j < n ? position[j] : make_float4(0, 0, 0, 0);  // no mass, no pull
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kTile; ++k) {
      const float4 b = tile[k];
      const float dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
      const float pull = b.w * inverse * inverse * inverse;
      a.x += dx * pull;
      a.y += dy * pull;
      a.z += dz * pull;
    }
    __syncthreads();
  }
  if (i >= n) return;
  float3 v = velocity[i];
  v.x += a.x * kStep;
  v.y += a.y * kStep;
  v.z += a.z * kStep;
  velocity[i] = v;
}

__global__ void move(float4* position, const float3* velocity, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  position[i].x += velocity[i].x * kStep;
  position[i].y += velocity[i].y * kStep;
  position[i].z += velocity[i].z * kStep;
}

int main() {
  const int n = 300, steps = 3;
  std::vector<float4> p(n);
  std::vector<float3> v(n, make_float3(0, 0, 0));
  for (int i = 0; i < n; ++i) {
    p[i] = make_float4(std::sin(i * 1.1f), std::cos(i * 2.3f), std::sin(i * 0.7f + 1), 1.0f / n);
  }
  float4* dp;
  float3* dv;
  CHECK(cudaMalloc(&dp, n * sizeof(float4)));
  CHECK(cudaMalloc(&dv, n * sizeof(float3)));
  CHECK(cudaMemcpy(dp, p.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dv, v.data(), n * sizeof(float3), cudaMemcpyHostToDevice));
  const int blocks = (n + kTile - 1) / kTile;
  for (int s = 0; s < steps; ++s) {
    accelerate<<<blocks, kTile>>>(dp, dv, n);
    move<<<blocks, kTile>>>(dp, dv, n);
  }
  CHECK(cudaGetLastError());
  std::vector<float4> got(n);
  CHECK(cudaMemcpy(got.data(), dp, n * sizeof(float4), cudaMemcpyDeviceToHost));

  std::vector<double> x(3 * n), u(3 * n);
  for (int i = 0; i < n; ++i) {
    x[3 * i] = p[i].x;
    x[3 * i + 1] = p[i].y;
    x[3 * i + 2] = p[i].z;
  }
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        double d[3], square = kSoftening;
        for (int c = 0; c < 3; ++c) {
          d[c] = x[3 * j + c] - x[3 * i + c];
          square += d[c] * d[c];
        }
        for (int c = 0; c < 3; ++c) u[3 * i + c] += kStep * d[c] / (n * square * std::sqrt(square));
      }
    }
    for (int i = 0; i < 3 * n; ++i) x[i] += kStep * u[i];
  }
  for (int i = 0; i < n; ++i) {
    const double error = std::fabs(got[i].x - x[3 * i]) + std::fabs(got[i].y - x[3 * i + 1]) +
                         std::fabs(got[i].z - x[3 * i + 2]);
    if (error > 1e-5) {
      std::printf("nbody: body %d is off by %g\n", i, error);
      return 1;
    }
  }
  std::printf("nbody: ok\n");
}
