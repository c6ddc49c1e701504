// Accesses whose sectors, conflicts and lanes are known from the textbook.
#include "warptape/kernels/simt/simt.h"  // first
//
#include "warptape/tests/simt/access_patterns.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

__global__ void strided(float* out, const float* x, int stride, int offset) {
  out[threadIdx.x] = x[offset + int(threadIdx.x) * stride];
}

__global__ void vector_copy(float* out, const float* x) {
  vstore(out + threadIdx.x * 4, vload<float4>(x + threadIdx.x * 4));
}

__global__ void transpose(float* out, const float* x) {
  for (int row = 0; row < 32; ++row) out[threadIdx.x * 32 + row] = x[row * 32 + threadIdx.x];
}

template <int Columns>
__global__ void transpose_shared(float* out, const float* x) {
  WT_SHARED(float, tile, [32][Columns]);
  for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
  __syncthreads();
  for (int row = 0; row < 32; ++row) out[row * 32 + threadIdx.x] = tile[threadIdx.x][row];
}

__global__ void vector_shared(float* out, const float* x) {
  WT_SHARED(float4, tile, [32]);
  vstore(&tile[threadIdx.x], vload<float4>(x + threadIdx.x * 4));
  __syncthreads();
  vstore(out + threadIdx.x * 4, vload<float4>(&tile[31 - threadIdx.x]));
}

__global__ void odd_lanes(float* out, const float* x) {
  if (threadIdx.x % 2 == 1)
    out[threadIdx.x] = x[threadIdx.x];
  else
    out[threadIdx.x] = 0;
}

__global__ void triangle(float* out, const float* x) {
  float sum = 0;
  for (unsigned k = 0; k <= threadIdx.x; ++k) sum += x[k * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}

__global__ void one_counter(int* out) {
  WT_SHARED(int, counter, );
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  atomicAdd(&counter, 1);
  __syncthreads();
  if (threadIdx.x == 0) *out = counter;
}

constexpr Config kWarp{.grid = 1, .block = 32};

}  // namespace

void test_strided(float* out, const float* x, int stride, int offset) {
  launch<strided>(kWarp, out, x, stride, offset);
}
void test_vector_copy(float* out, const float* x) { launch<vector_copy>(kWarp, out, x); }
void test_transpose(float* out, const float* x) { launch<transpose>(kWarp, out, x); }
void test_transpose_shared(float* out, const float* x, bool padded) {
  if (padded)
    launch<transpose_shared<33>>(kWarp, out, x);
  else
    launch<transpose_shared<32>>(kWarp, out, x);
}
void test_vector_shared(float* out, const float* x) { launch<vector_shared>(kWarp, out, x); }
void test_odd_lanes(float* out, const float* x) { launch<odd_lanes>(kWarp, out, x); }
void test_triangle(float* out, const float* x) { launch<triangle>(kWarp, out, x); }
void test_one_counter(int* out) { launch<one_counter>(kWarp, out); }

}  // namespace WT_DEVICE_NS
}  // namespace wt
