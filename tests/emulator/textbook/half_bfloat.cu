// Half and bfloat16 arithmetic, scalar and in pairs, against the same in double, rounded.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                          \
  if (const cudaError_t e = (call); e != cudaSuccess) {      \
    std::printf("half_bfloat: %s\n", cudaGetErrorString(e)); \
    return 1;                                                \
  }

constexpr int kResults = 12;

// The same text for both types: results[k][i] of the pair i.
template <class T, class T2>
__device__ void arithmetic(const T2* a, const T2* b, const T2* c, T2* results, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T2 x = a[i], y = b[i], z = c[i];
  T2* out = results + i;
  out[0 * n] = __hadd2(x, y);
  out[1 * n] = __hsub2(x, y);
  out[2 * n] = __hmul2(x, y);
  out[3 * n] = __hfma2(x, y, z);
  out[4 * n] = __hmax2(x, y);
  out[5 * n] = __hmin2(x, y);
  out[6 * n] = __hneg2(__habs2(x));
  out[7 * n] = __hgt2(x, y);
  out[8 * n] = T2{__low2float(x) < 0 ? T(y.y) : T(y.x), __hfma(x.x, y.y, z.x)};  // scalar
  out[9 * n] = __hfma2_relu(x, y, z);
  out[10 * n] = __h2div(x, y);
  out[11 * n] = T2{hsqrt(__habs(x.x)), T(__hle(x.x, y.y) ? 1.0f : 0.0f)};
}

__global__ void half_arithmetic(const __half2* a, const __half2* b, const __half2* c, __half2* out,
                                int n) {
  arithmetic<__half, __half2>(a, b, c, out, n);
}

__global__ void bfloat_arithmetic(const __nv_bfloat162* a, const __nv_bfloat162* b,
                                  const __nv_bfloat162* c, __nv_bfloat162* out, int n) {
  arithmetic<__nv_bfloat16, __nv_bfloat162>(a, b, c, out, n);
}

double reference(int k, double x, double y, double z, double x0, double y0, double y1, double z0,
                 int part) {
  switch (k) {
    case 0:
      return x + y;
    case 1:
      return x - y;
    case 2:
      return x * y;
    case 3:
      return x * y + z;
    case 4:
      return std::fmax(x, y);
    case 5:
      return std::fmin(x, y);
    case 6:
      return -std::fabs(x);
    case 7:
      return x > y;
    case 8:
      return part == 0 ? (x0 < 0 ? y1 : y0) : x0 * y1 + z0;
    case 9:
      return std::fmax(x * y + z, 0.0);
    case 10:
      return x / y;
    default:
      return part == 0 ? std::sqrt(std::fabs(x0)) : (x0 <= y1);
  }
}

template <class T, class T2, class Kernel>
int check(Kernel kernel, const char* name, double ulp) {
  const int n = 200;
  std::vector<T2> in(3 * n), out(kResults * n);
  const auto value = [](int i) { return float((i * 37) % 64 - 31.5f) / 8; };
  for (int i = 0; i < 3 * n; ++i) in[i] = T2{T(value(2 * i)), T(value(2 * i + 1))};
  T2 *din, *dout;
  CHECK(cudaMalloc(&din, in.size() * sizeof(T2)));
  CHECK(cudaMalloc(&dout, out.size() * sizeof(T2)));
  CHECK(cudaMemcpy(din, in.data(), in.size() * sizeof(T2), cudaMemcpyHostToDevice));
  kernel<<<2, 128>>>(din, din + n, din + 2 * n, dout, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(T2), cudaMemcpyDeviceToHost));
  for (int k = 0; k < kResults; ++k) {
    for (int i = 0; i < n; ++i) {
      const double x[2] = {float(in[i].x), float(in[i].y)};
      const double y[2] = {float(in[n + i].x), float(in[n + i].y)};
      const double z[2] = {float(in[2 * n + i].x), float(in[2 * n + i].y)};
      const double got[2] = {float(out[k * n + i].x), float(out[k * n + i].y)};
      for (int p = 0; p < 2; ++p) {
        const double e = reference(k, x[p], y[p], z[p], x[0], y[0], y[1], z[0], p);
        // Correctly rounded, but for division and square root, which may be one off.
        const double room = (k >= 10 ? 1.01 : 0.5) * ulp * std::fabs(e);
        if (std::fabs(got[p] - e) > room + 1e-12) {
          std::printf("half_bfloat: %s, result %d of %d: %g instead of %g\n", name, k, i, got[p],
                      e);
          return 1;
        }
      }
    }
  }
  CHECK(cudaFree(din));
  CHECK(cudaFree(dout));
  return 0;
}

// Roundings, integers, functions, and additions in memory.
__global__ void conversions(float* out, __half2* sum, __nv_bfloat16* bsum) {
  const float x = 1.0f + 1.0f / 1024 / 2 + 1e-6f;  // a little above half a step of half
  if (threadIdx.x == 0) {
    out[0] = __half2float(__float2half_rn(x));
    out[1] = __half2float(__float2half_rz(x));
    out[2] = __half2float(__float2half_ru(-x));
    out[3] = __half2float(__float2half_rd(-x));
    out[4] = float(__half2int_rn(__float2half(2.5f)));
    out[5] = float(__half2int_rz(__float2half(-2.7f)));
    out[6] = __half2float(__int2half_rn(2049));                  // a tie: to the even one
    out[7] = __half2float(__float2half(1e6f));                   // infinity
    out[8] = __bfloat162float(__float2bfloat16_rn(3.0078125f));  // a tie as well
    out[9] = __half2float(hexp(__float2half(1.0f)));
    out[10] = __half2float(h2log2(__float2half2_rn(8.0f)).y);
    const __half2 h = __halves2half2(__float2half(5.0f), __float2half(6.0f));
    out[11] = __half2float(__low2half(__lowhigh2highlow(h)));
    out[12] = __bfloat162float(__high2bfloat16(__floats2bfloat162_rn(1.0f, 7.0f)));
    const float2 f = __half22float2(__float22half2_rn(make_float2(0.1f, -0.25f)));
    out[13] = f.x + f.y;
    out[14] = __hisnan(__hsub(__float2half(1e6f), __float2half(1e6f))) ? 1.0f : 0.0f;
    out[15] = __half2float(__ushort_as_half(0x0001)) * 16777216.0f;  // the smallest
  }
  atomicAdd(sum, __floats2half2_rn(1.0f, 0.5f));
  atomicAdd(bsum, __float2bfloat16(1.0f));
}

int main() {
  if (check<__half, __half2>(half_arithmetic, "half", 1.0 / 1024) ||
      check<__nv_bfloat16, __nv_bfloat162>(bfloat_arithmetic, "bfloat16", 1.0 / 128)) {
    return 1;
  }
  float* out;
  CHECK(cudaMalloc(&out, 18 * sizeof(float)));
  CHECK(cudaMemset(out, 0, 18 * sizeof(float)));
  conversions<<<1, 64>>>(out, (__half2*)(out + 16), (__nv_bfloat16*)(out + 17));
  CHECK(cudaGetLastError());
  float got[18];
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  const float step = 1.0f / 1024;
  const float expected[16] = {1 + step, 1, -1,       -1 - step, 2, -2, 2048,
                              INFINITY, 3, 2.71875f, 3,         6, 7,  0.0999755859375f - 0.25f,
                              1,        1};
  for (int i = 0; i < 16; ++i) {
    if (std::fabs(got[i] - expected[i]) > 0.002f || std::isnan(got[i])) {
      std::printf("half_bfloat: conversion %d gave %.9g instead of %.9g\n", i, got[i], expected[i]);
      return 1;
    }
  }
  const __half2 sum = *(const __half2*)&got[16];
  const float bsum = __bfloat162float(*(const __nv_bfloat16*)&got[17]);
  if (float(sum.x) != 64 || float(sum.y) != 32 || bsum != 64) {
    std::printf("half_bfloat: sums %g, %g, %g\n", float(sum.x), float(sum.y), bsum);
    return 1;
  }
  std::printf("half_bfloat: ok\n");
}
