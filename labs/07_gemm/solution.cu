// The matrix product in tiles: of f32 by all threads, of f16 by tensor cores.
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

// A block has 64 x 64 elements, a thread 4 x 4 of them: 16 products for 8 loads from shared memory.
// An element of a is read by n / 64 blocks, one of b by m / 64.
constexpr int kRows = 64, kColumns = 64, kDepth = 32, kThreads = 256, kSide = 16;

__global__ void __launch_bounds__(kThreads) multiply_f32(Product<float> g) {
  // A row more than a multiple of 32: the two rows that a warp reads at once lie in other banks.
  WT_SHARED(float, a, [kRows][kDepth + 1]);
  WT_SHARED(float, b, [kDepth][kColumns]);
  const int t = int(threadIdx.x), tx = t % kSide, ty = t / kSide;
  const int i0 = int(blockIdx.y) * kRows, j0 = int(blockIdx.x) * kColumns;
  float sum[4][4] = {};
  for (int p0 = 0; p0 < g.k; p0 += kDepth) {
    // Neighbouring lanes, neighbouring elements; beyond the edges there are zeros, which add
    // nothing.
    for (int e = t; e < kRows * kDepth; e += kThreads) {
      const int i = e / kDepth, p = e % kDepth;
      a[i][p] = i0 + i < g.m && p0 + p < g.k ? g.a[i64(i0 + i) * g.k + p0 + p] : 0.0f;
    }
    for (int e = t; e < kDepth * kColumns; e += kThreads) {
      const int p = e / kColumns, j = e % kColumns;
      b[p][j] = p0 + p < g.k && j0 + j < g.n ? g.b[i64(p0 + p) * g.n + j0 + j] : 0.0f;
    }
    __syncthreads();  // the tile is written
    const int depth = g.k - p0 < kDepth ? g.k - p0 : kDepth;
    for (int p = 0; p < depth; ++p) {
      float column[4], row[4];
      for (int r = 0; r < 4; ++r) column[r] = a[ty * 4 + r][p];
      for (int c = 0; c < 4; ++c) row[c] = b[p][tx + kSide * c];
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) sum[r][c] += column[r] * row[c];
    }
    __syncthreads();  // the tile is read: it may be written again
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const int i = i0 + ty * 4 + r, j = j0 + tx + kSide * c;
      if (i < g.m && j < g.n) g.out[i64(i) * g.n + j] = sum[r][c];
    }
}

// --- f16: tensor cores ---

// A block has 64 x 64 elements, each of its four warps 32 x 32: 2 x 4 tiles of mma.
constexpr int kHalfRows = 64, kHalfColumns = 64, kHalfThreads = 128;

__global__ void __launch_bounds__(kHalfThreads) multiply_f16(Product<__half> g) {
  using ATile = MmaTile<__half, kHalfRows, true>;      // neighbours along p
  using BTile = MmaTile<__half, kHalfColumns, false>;  // neighbours along j
  WT_SHARED(ATile, a, [1]);
  WT_SHARED(BTile, b, [1]);
  const int t = int(threadIdx.x), warp = t / 32, lane = t % 32;
  const int i0 = int(blockIdx.y) * kHalfRows, j0 = int(blockIdx.x) * kHalfColumns;
  const int warp_i = warp / 2 * 32, warp_j = warp % 2 * 32;
  float sum[2][4][4] = {};
  for (int p0 = 0; p0 < g.k; p0 += kMmaDepth) {
    for (int e = t; e < kHalfRows * kMmaDepth; e += kHalfThreads) {
      const int i = e / kMmaDepth, p = e % kMmaDepth;
      const bool inside = i0 + i < g.m && p0 + p < g.k;
      a[0].v[i][p] = inside ? g.a[i64(i0 + i) * g.k + p0 + p] : __half(0.0f);
    }
    for (int e = t; e < kMmaDepth * kHalfColumns; e += kHalfThreads) {
      const int p = e / kHalfColumns, j = e % kHalfColumns;
      const bool inside = p0 + p < g.k && j0 + j < g.n;
      b[0].v[p][j] = inside ? g.b[i64(p0 + p) * g.n + j0 + j] : __half(0.0f);
    }
    __syncthreads();
    for (int p = 0; p < kMmaDepth; p += 16) {
      uint32_t fa[2][4], fb[2][4];
      for (int r = 0; r < 2; ++r) a[0].fragments(fa[r], warp_i + 16 * r, p, false);
      for (int c = 0; c < 2; ++c) b[0].fragments(fb[c], warp_j + 16 * c, p, true);
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 4; ++c) {
          const uint32_t pair[2] = {fb[c / 2][c % 2 * 2], fb[c / 2][c % 2 * 2 + 1]};
          mma_m16n8k16<__half>(sum[r][c], fa[r], pair);
        }
    }
    __syncthreads();
  }
  // A lane has four sums of a tile: two neighbours of row lane / 4, and two eight rows below.
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 4; ++c)
      for (int s = 0; s < 4; ++s) {
        const int i = i0 + warp_i + 16 * r + lane / 4 + s / 2 * 8;
        const int j = j0 + warp_j + 8 * c + lane % 4 * 2 + s % 2;
        if (i < g.m && j < g.n) g.out[i64(i) * g.n + j] = __half(sum[r][c][s]);
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
