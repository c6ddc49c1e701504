// Wrong kernels for matmul. "REJECT variant kind" as in softmax_bad.cu.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/matmul.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kTile = 16;

const char* plain_product(const MatmulArgs& a) {
  if (a.dtype != DType::f32) return "other dtypes than f32";
  if (a.bias || a.row_sum || a.accumulate || a.epilogue || a.batch_ndim)
    return "more than a product";
  return a.a_column == 1 && a.b_column == 1 && a.a_row == a.k && a.b_row == a.n ? nullptr
                                                                                : "other strides";
}
// bias is not looked at.
const char* forgets_bias_is_there(const MatmulArgs& a) {
  MatmulArgs plain = a;
  plain.bias = nullptr;
  return plain_product(plain);
}

// REJECT no_second_barrier race
__global__ void no_second_barrier(float* out, const float* a, const float* b, int m, int n, int k) {
  WT_SHARED(float, ta, [kTile][kTile]);
  WT_SHARED(float, tb, [kTile][kTile]);
  const int tx = int(threadIdx.x), ty = int(threadIdx.y);
  const int i = int(blockIdx.y) * kTile + ty, j = int(blockIdx.x) * kTile + tx;
  float s = 0;
  for (int first = 0; first < k; first += kTile) {
    ta[ty][tx] = i < m && first + tx < k ? a[i * k + first + tx] : 0;  // BUG no_second_barrier
    tb[ty][tx] = j < n && first + ty < k ? b[(first + ty) * n + j] : 0;
    __syncthreads();
    for (int l = 0; l < kTile && first + l < k; ++l) s += ta[ty][l] * tb[l][tx];
  }
  if (i < m && j < n) out[i * n + j] = s;
}
// REJECT whole_tiles_of_k values
__global__ void whole_tiles_of_k(float* out, const float* a, const float* b, int m, int n, int k) {
  const int i = int(blockIdx.y * kTile + threadIdx.y), j = int(blockIdx.x * kTile + threadIdx.x);
  if (i >= m || j >= n) return;
  float s = 0;
  for (int l = 0; l < k / 4 * 4; ++l) s += a[i * k + l] * b[l * n + j];
  out[i * n + j] = s;
}
// REJECT transposed_b values
__global__ void transposed_b(float* out, const float* a, const float* b, int m, int n, int k) {
  const int i = int(blockIdx.y * kTile + threadIdx.y), j = int(blockIdx.x * kTile + threadIdx.x);
  if (i >= m || j >= n) return;
  float s = 0;
  for (int l = 0; l < k; ++l) s += a[i * k + l] * b[j * k + l];
  out[i * n + j] = s;
}
// The tail of the tile has what was there before.
// REJECT stale_tile nan
__global__ void stale_tile(float* out, const float* a, const float* b, int m, int n, int k) {
  WT_SHARED(float, ta, [kTile][kTile]);
  const int tx = int(threadIdx.x), ty = int(threadIdx.y);
  const int i = int(blockIdx.y) * kTile + ty, j = int(blockIdx.x) * kTile + tx;
  float s = 0;
  for (int first = 0; first < k; first += kTile) {
    if (i < m && first + tx < k) ta[ty][tx] = a[i * k + first + tx];
    __syncthreads();
    for (int l = 0; l < kTile; ++l)
      s += ta[ty][l] * (j < n && first + l < k ? b[(first + l) * n + j] : 0.0f);
    __syncthreads();
  }
  if (i < m && j < n) out[i * n + j] = s;
}
// REJECT returns_early barrier
__global__ void returns_early(float* out, const float* a, const float* b, int m, int n, int k) {
  WT_SHARED(float, ta, [kTile][kTile]);
  const int tx = int(threadIdx.x), ty = int(threadIdx.y);
  const int i = int(blockIdx.y) * kTile + ty, j = int(blockIdx.x) * kTile + tx;
  if (i >= m || j >= n) return;
  float s = 0;
  for (int first = 0; first < k; first += kTile) {
    ta[ty][tx] = first + tx < k ? a[i * k + first + tx] : 0;
    __syncthreads();  // BUG returns_early
    for (int l = 0; l < kTile && first + l < k; ++l) s += ta[ty][l] * b[(first + l) * n + j];
    __syncthreads();
  }
  out[i * n + j] = s;
}
// REJECT adds_to_out values
__global__ void adds_to_out(float* out, const float* a, const float* b, int m, int n, int k) {
  const int i = int(blockIdx.y * kTile + threadIdx.y), j = int(blockIdx.x * kTile + threadIdx.x);
  if (i >= m || j >= n) return;
  for (int l = 0; l < k; ++l) out[i * n + j] += a[i * k + l] * b[l * n + j];
}
__global__ void right(float* out, const float* a, const float* b, int m, int n, int k) {
  const int i = int(blockIdx.y * kTile + threadIdx.y), j = int(blockIdx.x * kTile + threadIdx.x);
  if (i >= m || j >= n) return;
  float s = 0;
  for (int l = 0; l < k; ++l) s += a[i * k + l] * b[l * n + j];
  out[i * n + j] = s;
}

template <auto Kernel>
void tiles(const MatmulArgs& a, const Launch& l) {
  Config c = grid(l, 0, 0);
  c.grid = dim3(blocks_for(a.n, kTile), blocks_for(a.m, kTile));
  c.block = dim3(kTile, kTile);
  launch<Kernel>(c, static_cast<float*>(a.out), static_cast<const float*>(a.a),
                 static_cast<const float*>(a.b), int(a.m), int(a.n), int(a.k));
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT forgets_bias values
#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = plain_product, .launch = tiles<kernel> }
WT_VARIANTS(WT_DEVICE_NS, matmul, MatmulArgs, WT_ROW(no_second_barrier), WT_ROW(whole_tiles_of_k),
            WT_ROW(transposed_b), WT_ROW(stale_tile), WT_ROW(returns_early), WT_ROW(adds_to_out),
            {.name = "forgets_bias", .why_not = forgets_bias_is_there, .launch = tiles<right>});

}  // namespace wt
