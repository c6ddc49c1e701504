// hint: barrier
// "The tile is written, barrier, the tile is read": that is one step of the loop. The next step
// writes the tile while slower warps still read it. On most GPUs it goes well most of the time.
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
  }
  if (i < g.m && j < g.n) g.out[i64(i) * g.n + j] = sum;
}

// --- f16: tensor cores ---

constexpr int kHalfRows = 16, kHalfColumns = 8, kHalfThreads = 32;

__device__ uint32_t pair_of(__half first, __half second) {
  return uint32_t(__half_as_ushort(first)) | uint32_t(__half_as_ushort(second)) << 16;
}
__device__ __half a_at(const Product<__half>& g, int i, int p) {
  return i < g.m && p < g.k ? g.a[i64(i) * g.k + p] : __half(0.0f);
}
__device__ __half b_at(const Product<__half>& g, int p, int j) {
  return p < g.k && j < g.n ? g.b[i64(p) * g.n + j] : __half(0.0f);
}
// One warp, one tile, fragments straight from memory.
__global__ void __launch_bounds__(kHalfThreads) multiply_f16(Product<__half> g) {
  const int lane = int(threadIdx.x), row = lane / 4, two = lane % 4 * 2;
  const int i0 = int(blockIdx.y) * 16, j0 = int(blockIdx.x) * 8;
  float sum[4] = {};
  for (int p0 = 0; p0 < g.k; p0 += 16) {
    uint32_t a[4], b[2];
    for (int q = 0; q < 4; ++q) {
      const int i = i0 + row + q % 2 * 8, p = p0 + two + q / 2 * 8;
      a[q] = pair_of(a_at(g, i, p), a_at(g, i, p + 1));
    }
    for (int q = 0; q < 2; ++q) {
      const int p = p0 + two + q * 8, j = j0 + row;
      b[q] = pair_of(b_at(g, p, j), b_at(g, p + 1, j));
    }
    mma_m16n8k16<__half>(sum, a, b);
  }
  for (int s = 0; s < 4; ++s) {
    const int i = i0 + row + s / 2 * 8, j = j0 + two + s % 2;
    if (i < g.m && j < g.n) g.out[i64(i) * g.n + j] = __half(sum[s]);
  }
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
