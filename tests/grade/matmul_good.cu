// Right kernels for matmul, in styles that differ as students' do.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/matmul.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* plain_product(const MatmulArgs& a) {
  if (a.dtype != DType::f32) return "other dtypes than f32";
  if (a.bias || a.row_sum || a.accumulate || a.epilogue || a.batch_ndim)
    return "more than a product";
  const bool dense =
      a.out_row == a.n && a.a_row == a.k && a.a_column == 1 && a.b_row == a.n && a.b_column == 1;
  return dense || a.out_row == 0 ? nullptr : "other strides";
}
const char* strided_product(const MatmulArgs& a) {
  if (a.dtype != DType::f32) return "other dtypes than f32";
  return a.row_sum || a.accumulate || a.epilogue || a.batch_ndim ? "more than a product" : nullptr;
}

__global__ void element(float* out, const float* a, const float* b, int m, int n, int k) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e >= m * n) return;
  float s = 0;
  for (int l = 0; l < k; ++l) s += a[e / n * k + l] * b[l * n + e % n];
  out[e] = s;
}
__global__ void warp_an_element(float* out, const float* a, const float* b, int m, int n, int k) {
  const int e = int(blockIdx.x) * 4 + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (e >= m * n) return;
  float s = 0;
  for (int l = lane; l < k; l += 32) s += a[e / n * k + l] * b[l * n + e % n];
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (lane == 0) out[e] = s;
}
constexpr int kTile = 16;
__global__ void tiled(float* out, const float* a, const float* b, int m, int n, int k) {
  WT_SHARED(float, ta, [kTile][kTile + 1]);
  WT_SHARED(float, tb, [kTile][kTile]);
  const int tx = int(threadIdx.x), ty = int(threadIdx.y);
  const int i = int(blockIdx.y) * kTile + ty, j = int(blockIdx.x) * kTile + tx;
  float s = 0;
  for (int first = 0; first < k; first += kTile) {
    ta[ty][tx] = i < m && first + tx < k ? a[i * k + first + tx] : 0;
    tb[ty][tx] = j < n && first + ty < k ? b[(first + ty) * n + j] : 0;
    __syncthreads();
    const int last = k - first < kTile ? k - first : kTile;
    for (int l = 0; l < last; ++l) s += ta[ty][l] * tb[l][tx];
    __syncthreads();
  }
  if (i < m && j < n) out[i * n + j] = s;
}
// A thread has a column of four.
__global__ void four_rows(float* out, const float* a, const float* b, int m, int n, int k) {
  const int j = int(blockIdx.x * blockDim.x + threadIdx.x), i0 = int(blockIdx.y) * 4;
  if (j >= n) return;
  float s[4] = {};
  for (int l = 0; l < k; ++l) {
    const float v = b[l * n + j];
    for (int r = 0; r < 4; ++r)
      if (i0 + r < m) s[r] += a[(i0 + r) * k + l] * v;
  }
  for (int r = 0; r < 4; ++r)
    if (i0 + r < m) out[(i0 + r) * n + j] = s[r];
}
__global__ void strided(float* out, const float* a, const float* b, const float* bias, int m, int n,
                        int k, i64 row, i64 ar, i64 ac, i64 br, i64 bc) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e >= m * n) return;
  float s = bias ? bias[e % n] : 0;
  for (int l = 0; l < k; ++l) s += a[e / n * ar + l * ac] * b[l * br + e % n * bc];
  out[e / n * row + e % n] = s;
}

template <auto Kernel, int PerBlock, int Threads>
void flat(const MatmulArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.m * a.n, PerBlock), Threads), static_cast<float*>(a.out),
                 static_cast<const float*>(a.a), static_cast<const float*>(a.b), int(a.m), int(a.n),
                 int(a.k));
}
void in_tiles(const MatmulArgs& a, const Launch& l) {
  Config c = grid(l, 0, 0);
  c.grid = dim3(blocks_for(a.n, kTile), blocks_for(a.m, kTile));
  c.block = dim3(kTile, kTile);
  launch<tiled>(c, static_cast<float*>(a.out), static_cast<const float*>(a.a),
                static_cast<const float*>(a.b), int(a.m), int(a.n), int(a.k));
}
void by_four(const MatmulArgs& a, const Launch& l) {
  Config c = grid(l, 0, 32);
  c.grid = dim3(blocks_for(a.n, 32), blocks_for(a.m, 4));
  launch<four_rows>(c, static_cast<float*>(a.out), static_cast<const float*>(a.a),
                    static_cast<const float*>(a.b), int(a.m), int(a.n), int(a.k));
}
void of_strides(const MatmulArgs& a, const Launch& l) {
  launch<strided>(grid(l, blocks_for(a.m * a.n, 64), 64), static_cast<float*>(a.out),
                  static_cast<const float*>(a.a), static_cast<const float*>(a.b),
                  static_cast<const float*>(a.bias), int(a.m), int(a.n), int(a.k), a.out_row,
                  a.a_row, a.a_column, a.b_row, a.b_column);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, matmul, MatmulArgs,
            {.name = "element", .why_not = plain_product, .launch = flat<element, 64, 64>},
            {.name = "warp_an_element",
             .why_not = plain_product,
             .launch = flat<warp_an_element, 4, 128>},
            {.name = "tiled", .why_not = plain_product, .launch = in_tiles},
            {.name = "four_rows", .why_not = plain_product, .launch = by_four},
            {.name = "strided", .why_not = strided_product, .launch = of_strides});

}  // namespace wt
