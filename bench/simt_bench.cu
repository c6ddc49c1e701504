// What the executor costs: time of a barrier, a shuffle, an mma, a launch, and of whole kernels.
// The rows are those of the executor's design notes, so that a slower hot path is seen at once.
//   simt_bench [repetitions]
// Compiled by nvcc it is emulator_bench, the same rows for the emulated cuda device:
//   tools/emulate --eager emulator_bench [repetitions]
#include "warptape/kernels/simt/simt.h"
//
#include <time.h>

#include <stdio.h>
#include <stdlib.h>

#include "warptape/core/std_descriptors.h"
#include "warptape/kernels/simt/executor.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

__global__ void empty_kernel() {}
__global__ void barrier_kernel(int n) {
  for (int i = 0; i < n; ++i) __syncthreads();
}
__global__ void shuffle_kernel(float* y, int n) {
  float v = float(threadIdx.x);
  for (int i = 0; i < n; ++i) v += __shfl_xor_sync(0xffffffffu, v, 1) * 0.5f;
  y[threadIdx.x] = v;
}
__global__ void mma_kernel(float* y, int n) {
  float d[4] = {};
  uint32_t a[4] = {1, 2, 3, 4}, b[2] = {1, 2};
  for (int i = 0; i < n; ++i) mma_m16n8k16<__half>(d, a, b);
  y[threadIdx.x] = d[0];
}
__global__ void axpy_kernel(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void axpy_barrier_kernel(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
  __syncthreads();
}

template <class Op>
__device__ float warp_reduce(float v, Op op) {
  for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
template <int Threads, class Op>
__device__ float block_reduce(float v, Op op, float identity) {
  WT_SHARED(float, part, [Threads / 32]);
  v = warp_reduce(v, op);
  const int lane = threadIdx.x % 32;
  __syncthreads();  // a previous call may still read part
  if (lane == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_reduce(lane < Threads / 32 ? part[lane] : identity, op);
}
template <int Threads>
__global__ void softmax_kernel(float* y, const float* x, int columns) {
  const float* row = x + size_t(blockIdx.x) * columns;
  float* out = y + size_t(blockIdx.x) * columns;
  float m = -INFINITY, s = 0;
  for (int i = threadIdx.x; i < columns; i += Threads) m = fmaxf(m, row[i]);
  m = block_reduce<Threads>(m, Max{}, -INFINITY);
  for (int i = threadIdx.x; i < columns; i += Threads) s += __expf(row[i] - m);
  s = block_reduce<Threads>(s, Sum{}, 0.0f);
  const float scale = 1.0f / s;
  for (int i = threadIdx.x; i < columns; i += Threads) out[i] = __expf(row[i] - m) * scale;
}

// 64x64 tiles, 256 threads, 4x4 outputs a thread; sizes are multiples of the tile.
__global__ void __launch_bounds__(256)
    sgemm_kernel(float* c, const float* a, const float* b, int n, int k) {
  WT_SHARED(float, as, [16][68]);
  WT_SHARED(float, bs, [16][64]);
  const int t = threadIdx.x, tx = t % 16, ty = t / 16, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    const float4 va = vload<float4>(&a[size_t(m0 + t / 4) * k + k0 + t % 4 * 4]);
    as[t % 4 * 4][t / 4] = va.x;
    as[t % 4 * 4 + 1][t / 4] = va.y;
    as[t % 4 * 4 + 2][t / 4] = va.z;
    as[t % 4 * 4 + 3][t / 4] = va.w;
    vstore(&bs[t / 16][t % 16 * 4], vload<float4>(&b[size_t(k0 + t / 16) * n + n0 + t % 16 * 4]));
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      const float4 x = vload<float4>(&as[kk][ty * 4]), y = vload<float4>(&bs[kk][tx * 4]);
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += xs[i] * ys[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    vstore(&c[size_t(m0 + ty * 4 + i) * n + n0 + tx * 4],
           make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
}

// 64x64x32 tiles, 4 warps of 32x32 outputs each; a row-major, b row-major, both half.
__global__ void __launch_bounds__(128)
    hgemm_kernel(float* c, const __half* a, const __half* b, int n, int k) {
  constexpr int kPitchA = 40, kPitchB = 72;
  WT_SHARED(__half, as, [64 * kPitchA]);
  WT_SHARED(__half, bs, [32 * kPitchB]);
  const int t = threadIdx.x, lane = t % 32, wm = t / 64 * 32, wn = t / 32 % 2 * 32;
  const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
  float acc[2][4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int i = t; i < 256; i += 128) {
      const int r = i / 4, q = i % 4 * 8, s = i / 8, u = i % 8 * 8;
      vstore(&as[r * kPitchA + q], vload<uint4>(&a[size_t(m0 + r) * k + k0 + q]));
      vstore(&bs[s * kPitchB + u], vload<uint4>(&b[size_t(k0 + s) * n + n0 + u]));
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      uint32_t fa[2][4], fb[4][2];
      for (int i = 0; i < 2; ++i)
        ldmatrix<4>(fa[i], &as[(wm + i * 16 + lane % 16) * kPitchA + kk + lane / 16 * 8]);
      for (int j = 0; j < 4; ++j)
        ldmatrix<2, true>(fb[j], &bs[(kk + lane % 16) * kPitchB + wn + j * 8]);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) mma_m16n8k16<__half>(acc[i][j], fa[i], fb[j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int h = 0; h < 2; ++h)
        vstore(&c[size_t(m0 + wm + i * 16 + lane / 4 + h * 8) * n + n0 + wn + j * 8 + lane % 4 * 2],
               make_float2(acc[i][j][2 * h], acc[i][j][2 * h + 1]));
}

// Of this thread: other programs on the machine do not count.
double cpu_us() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
}
int repetitions = 5;
// The best of some runs, in microseconds.
template <class F>
double best_us(F f) {
  double best = 1e30;
  for (int r = 0; r < repetitions; ++r) {
    const double begin = cpu_us();
    f();
#if defined(__CUDACC__)
    cudaDeviceSynchronize();
#endif
    const double t = cpu_us() - begin;
    if (t < best) best = t;
  }
  return best;
}

#if defined(__CUDACC__)
template <class T>
__global__ void fill_kernel(T* p, size_t n, float value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    p[i] = T(value);
}
template <class T>
T* device_values(size_t n, float value) {
  T* p = nullptr;
  cudaMalloc(&p, n * sizeof(T));
  fill_kernel<<<64, 256>>>(p, n, value);
  return p;
}
#else
template <class T>
T* device_values(size_t n, float value) {
  T* p = static_cast<T*>(simt_arena_alloc(n * sizeof(T)));
  const SimtUnprotect open;
  for (size_t i = 0; i < n; ++i) p[i] = T(value);
  return p;
}
#endif

void bench() {
  for (const unsigned n : {32u, 256u}) {
    const double t = best_us([n] {
      for (int i = 0; i < 1000; ++i) launch<empty_kernel>({.grid = 1, .block = n});
    });
    printf("launch 1x%u: %.2f us\n", n, t * 1e-3);
  }
  for (int n : {32, 64, 128, 256, 512, 1024}) {
    const int count = 2000;
    const double t =
        best_us([&] { launch<barrier_kernel>({.grid = 1, .block = unsigned(n)}, count); });
    printf("barrier, block of %d: %.1f ns a thread\n", n, t * 1e3 / count / n);
  }
  float* y = device_values<float>(1 << 20, 2);
  float* x = device_values<float>(1 << 20, 1);
  const int count = 20000, n = 1 << 20;
  double t = best_us([&] { launch<shuffle_kernel>({.grid = 1, .block = 32}, y, count); });
  printf("shuffle: %.1f ns a lane\n", t * 1e3 / count / 32);
  t = best_us([&] { launch<mma_kernel>({.grid = 1, .block = 32}, y, count); });
  printf("mma.m16n8k16: %.0f ns a warp\n", t * 1e3 / count);
  t = best_us([&] { launch<axpy_kernel>({.grid = n / 256, .block = 256}, y, x, 0.5f, n); });
  printf("no synchronisation: %.2f ns a thread\n", t * 1e3 / n);
  t = best_us([&] { launch<axpy_barrier_kernel>({.grid = n / 256, .block = 256}, y, x, 0.5f, n); });
  printf("one barrier: %.1f ns a thread\n", t * 1e3 / n);
#if defined(__CUDACC__)
  t = best_us([&] { launch<softmax_kernel<256>>({.grid = 64, .block = 256}, y, x, 1024); });
  printf("softmax 64x1024: %.2f ms\n", t * 1e-3);
#else
  const char* orders[] = {"forward", "reverse", "random"};
  const SimtOrder before = simt_options().order;
  for (int o = 0; o < 3; ++o) {
    simt_options().order = SimtOrder(o);
    t = best_us([&] { launch<softmax_kernel<256>>({.grid = 64, .block = 256}, y, x, 1024); });
    printf("softmax 64x1024, %s: %.2f ms\n", orders[o], t * 1e-3);
  }
  simt_options().order = before;
#endif
  __half* ha = device_values<__half>(256 * 256, 1);
  __half* hb = device_values<__half>(256 * 256, 1);
  for (int m : {128, 256}) {
    const dim3 grid(unsigned(m / 64), unsigned(m / 64));
    t = best_us([&] { launch<sgemm_kernel>({.grid = grid, .block = 256}, y, x, x, m, m); });
    printf("sgemm %d^3: %.2f ms\n", m, t * 1e-3);
    t = best_us([&] { launch<hgemm_kernel>({.grid = grid, .block = 128}, y, ha, hb, m, m); });
    printf("mma gemm %d^3: %.2f ms\n", m, t * 1e-3);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt

int main(int argc, char** argv) {
  wt::hold_standard_descriptors();
  if (argc > 1) wt::repetitions = atoi(argv[1]);
  wt::bench();
}
