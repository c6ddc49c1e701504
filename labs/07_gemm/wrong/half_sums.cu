// hint: accumulate
// The operands are f16 and so is the result, so the sum is, too. After a hundred terms it has lost
// what a term weighs; tensor cores add in f32, and so must every kernel.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/device/mma_tile.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/matmul.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// out[i, j] = sum over p of a[i, p] * b[p, j]: [m, n] = [m, k] [k, n], C order.
template <class T>
struct Product {
  T* out;
  const T *a, *b;
  int m, n, k;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(a), f(b);
  }
};

// --- f32: tiles ---

constexpr int kRows = 16, kColumns = 16, kThreads = 256;

__global__ void __launch_bounds__(kThreads) multiply_f32(Product<float> g) {
  WT_SHARED(float, a, [16][17]);
  WT_SHARED(float, b, [16][16]);
  const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
  const int i = int(blockIdx.y) * 16 + ty, j = int(blockIdx.x) * 16 + tx;
  float sum = 0;
  for (int p0 = 0; p0 < g.k; p0 += 16) {
    a[ty][tx] = i < g.m && p0 + tx < g.k ? g.a[i64(i) * g.k + p0 + tx] : 0.0f;
    b[ty][tx] = j < g.n && p0 + ty < g.k ? g.b[i64(p0 + ty) * g.n + j] : 0.0f;
    __syncthreads();
    for (int p = 0; p < 16 && p0 + p < g.k; ++p) sum += a[ty][p] * b[p][tx];
    __syncthreads();
  }
  if (i < g.m && j < g.n) g.out[i64(i) * g.n + j] = sum;
}

// --- f16: tensor cores ---

constexpr int kHalfRows = 1, kHalfColumns = 64, kHalfThreads = 64;

__global__ void __launch_bounds__(kHalfThreads) multiply_f16(Product<__half> g) {
  const int i = int(blockIdx.y), j = int(blockIdx.x) * kHalfColumns + int(threadIdx.x);
  if (j >= g.n) return;
  __half sum = __half(0.0f);
  for (int p = 0; p < g.k; ++p)
    sum = __half(float(sum) + float(g.a[i64(i) * g.k + p]) * float(g.b[i64(p) * g.n + j]));
  g.out[i64(i) * g.n + j] = sum;
}

// --- launch ---

template <class T, auto Kernel>
void launch_tiles(const MatmulArgs& g, const Launch& l, int rows, int columns, int threads) {
  Config c = grid_of(l, ceil_div(g.n, columns), threads);
  c.grid.y = unsigned(ceil_div(g.m, rows));
  launch<Kernel>(c, Product<T>{static_cast<T*>(g.out), static_cast<const T*>(g.a),
                               static_cast<const T*>(g.b), int(g.m), int(g.n), int(g.k)});
}
void product(const MatmulArgs& g, const Launch& l) {
  if (g.dtype == DType::f32)
    launch_tiles<float, multiply_f32>(g, l, kRows, kColumns, kThreads);
  else
    launch_tiles<__half, multiply_f16>(g, l, kHalfRows, kHalfColumns, kHalfThreads);
}
const char* why_not(const MatmulArgs& g) {
  if (g.dtype != DType::f32 && g.dtype != DType::f16) return "other dtypes than f32 and f16";
  if (g.bias || g.row_sum || g.accumulate || g.epilogue || g.batch_ndim)
    return "more than one product";
  if (g.out_row != g.n || g.a_row != g.k || g.a_column != 1 || g.b_row != g.n || g.b_column != 1)
    return "matrices that are not contiguous";
  return ceil_div(g.m, kRows) < 65536 && ceil_div(g.m, kHalfRows) < 65536 ? nullptr : "rows";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, matmul, MatmulArgs,
            {.name = "mine", .why_not = why_not, .launch = product});

}  // namespace wt
