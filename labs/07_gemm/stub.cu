// Lab 7: the matrix product, from naive to tensor cores. page.md has the task; what is to be
// written says "Yours".
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

// A block has kRows x kColumns elements, from row blockIdx.y * kRows and column blockIdx.x *
// kColumns on. This is the plainest kernel: right, and every thread reads its whole row and column.
constexpr int kRows = 1, kColumns = 128, kThreads = 128;

__global__ void __launch_bounds__(kThreads) multiply_f32(Product<float> g) {
  const int i = int(blockIdx.y), j = int(blockIdx.x) * kColumns + int(threadIdx.x);
  if (j >= g.n) return;
  float sum = 0;
  for (int p = 0; p < g.k; ++p) sum += g.a[i64(i) * g.k + p] * g.b[i64(p) * g.n + j];
  g.out[i64(i) * g.n + j] = sum;
  // Yours: the same from tiles in shared memory. WT_SHARED(float, a, [kRows][kDepth]);
}

// --- f16: tensor cores ---

constexpr int kHalfRows = 16, kHalfColumns = 8, kHalfThreads = 32;

__global__ void __launch_bounds__(kHalfThreads) multiply_f16(Product<__half> g) {
  // Yours: mma_m16n8k16<__half>(sum, a, b) with float sum[4], uint32_t a[4], b[2], by a whole warp.
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
