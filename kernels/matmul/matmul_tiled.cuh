// The rung `tiled` of the matrix product: a block makes Side x Side elements, a thread (Side /
// 16)^2 of them. Both operands' tiles lie in shared memory as [p][x], x being the row of a or the
// column of b, so that a thread reads 4 neighbours at once. Two buffers: while one is multiplied,
// the next tile travels through registers, and a step costs one barrier.
#pragma once
#include "warptape/kernels/device/unroll.cuh"
#include "warptape/kernels/matmul/matmul_finish.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kTiledThreads = 256, kDepth = 16;

// The 4 floats more keep rows at 16-byte boundaries. A tile that is stored across its rows (four
// values of p by eight of x a warp) meets every bank twice; without the padding, four times.
template <int Side>
using SharedTile = float[kDepth][Side + 4];

// An operand as a tile loader sees it: element (p, x) lies at p * p_stride + x * x_stride.
struct TileSource {
  i64 p_stride, x_stride;
  bool vectors;  // groups of 4 along the unit stride are aligned
};

// One thread's share of a tile: groups of 4 neighbours along the axis with unit stride.
template <class T, int Side>
struct TileLoader {
  // Registers: 8 of each operand at Side 128, filled by loads that are still under way when the
  // multiplication of the tile before begins.
  static constexpr int kGroups = kDepth * Side / 4 / kTiledThreads;
  float v[kGroups][4];

  // Where group i of this thread begins.
  __device__ __forceinline__ static void place(bool along_x, int i, int& p, int& x) {
    const int n = int(threadIdx.x) + i * kTiledThreads;
    // Neighbouring threads take neighbouring groups of the axis that is contiguous in memory: of
    // f32 a warp reads runs of 512 or 256 bytes along x, of 64 bytes along p, whole sectors both.
    p = along_x ? n / (Side / 4) : n % (kDepth / 4) * 4;
    x = along_x ? n % (Side / 4) * 4 : n / (kDepth / 4);
  }
  // `from`: the tile's first element, p_left and x_left how far the operand reaches from it. What
  // lies outside is zero.
  __device__ __forceinline__ void load(const T* from, const TileSource& s, int p_left, int x_left) {
    const bool along_x = s.x_stride == 1;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int p, x;
      place(along_x, i, p, x);
      const int left = along_x ? x_left - x : p_left - p;  // along the group
      const bool inside = along_x ? p < p_left : x < x_left;
      const T* at = from + p * s.p_stride + x * s.x_stride;
      if (inside && left >= 4 && s.vectors) {
        T four[4];
        load_vector<4>(four, at);
#pragma unroll
        for (int e = 0; e < 4; ++e) v[i][e] = float(four[e]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) v[i][e] = inside && e < left ? float(at[e]) : 0.0f;
      }
    }
  }
  __device__ __forceinline__ void store(bool along_x, SharedTile<Side>& to) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int p, x;
      place(along_x, i, p, x);
      if (along_x) {
        store_vector<4>(&to[p][x], v[i]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[p + e][x] = v[i][e];
      }
    }
  }
};

// A thread's elements are groups of 4 rows and columns, Side / groups apart: neighbouring threads
// then read neighbouring banks.
template <int Side>
struct Blocking {
  // A warp has two values of `thread` for a's rows and 16 for b's columns: its 16-byte loads of b
  // are 256 neighbouring bytes, of a two addresses that are sent to 16 lanes each. Eight columns in
  // a row would be loads 32 bytes apart, and every bank asked for twice.
  static constexpr int kGroups = Side / 64, kEach = 4 * kGroups;
  __device__ __forceinline__ static int offset(int thread, int e) {
    return e / 4 * (Side / kGroups) + thread * 4 + e % 4;
  }
};

template <int Side>
__device__ __forceinline__ void multiply_tile(
    const SharedTile<Side>& a, const SharedTile<Side>& b, int ty, int tx,
    float (&sum)[Blocking<Side>::kEach][Blocking<Side>::kEach]) {
  constexpr int kGroups = Blocking<Side>::kGroups, kEach = Blocking<Side>::kEach;
#pragma unroll
  for (int p = 0; p < kDepth; ++p) {
    // At Side 128 four 16-byte loads, then 64 multiplications from registers: 4 a float that is
    // loaded, where naive has a half. Unrolled, because registers have no addresses: x[h] needs a
    // constant h.
    float x[kGroups][4], y[kGroups][4];
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
      load_vector<4>(x[h], &a[p][Blocking<Side>::offset(ty, 4 * h)]);
      load_vector<4>(y[h], &b[p][Blocking<Side>::offset(tx, 4 * h)]);
    }
    WT_UNROLL
    for (int r = 0; r < kEach; ++r) {
      WT_UNROLL
      for (int c = 0; c < kEach; ++c) sum[r][c] += x[r / 4][r % 4] * y[c / 4][c % 4];
    }
  }
}

// The sums of a block with an epilogue: 64 rows a band, in the memory of the tiles.
template <class T, int Side>
__device__ __forceinline__ void finish_staged(
    const MatmulArgs& g, float* band, T* out, i64 i0, i64 j0,
    const float (&sum)[Blocking<Side>::kEach][Blocking<Side>::kEach], bool packs) {
  constexpr int kPitch = Side + 4, kRows = 64;
  static_assert(4 * sizeof(SharedTile<Side>) >= kRows * kPitch * 4);
  const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
#pragma unroll
  for (int b = 0; b < Side / kRows; ++b) {
    __syncthreads();  // the tiles, or the band before, have been read
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < Blocking<Side>::kEach; c += 4) {
        const float(&from)[Blocking<Side>::kEach] = sum[4 * b + r];
        vstore(band + (ty * 4 + r) * kPitch + Blocking<Side>::offset(tx, c),
               Pack<float, 4>{from[c], from[c + 1], from[c + 2], from[c + 3]});
      }
    __syncthreads();
    finish_band<T, kRows, Side, kTiledThreads>(g, band, kPitch, out, i0 + b * kRows, j0, packs);
  }
}

template <class T, int Side, bool Ends>
__global__ void __launch_bounds__(kTiledThreads)
    matmul_tiled(const __grid_constant__ MatmulArgs g, const __grid_constant__ KParts parts,
                 i64 batches, bool a_vectors, bool b_vectors, bool packs) {
  constexpr int kEach = Blocking<Side>::kEach;
  WT_SHARED(SharedTile<Side>, tiles, [4]);
  SharedTile<Side>*const a_tile = tiles, *const b_tile = tiles + 2;
  const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
  const TilePlace place =
      tile_place(blockIdx.x, u32((g.m + Side - 1) / Side), u32((g.n + Side - 1) / Side));
  const i64 i0 = place.row * Side, j0 = place.column * Side;
  const bool sums_rows = g.row_sum && j0 == 0 && threadIdx.x < Side;
  const TileSource a_source{g.a_column, g.a_row, a_vectors};
  const TileSource b_source{g.b_row, g.b_column, b_vectors};

  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const Matrices<T> x = matrices_at<T>(g, z);
    const T* a = x.a + i0 * g.a_row + parts.first() * g.a_column;
    const T* b = x.b + j0 * g.b_column + parts.first() * g.b_row;
    const i64 k = parts.terms(g.k);
    const int m_left = clamp_left(g.m - i0), n_left = clamp_left(g.n - j0);
    TileLoader<T, Side> a_next, b_next;
    float sum[kEach][kEach] = {};
    float row_sum = 0;
    a_next.load(a, a_source, clamp_left(k), m_left);
    b_next.load(b, b_source, clamp_left(k), n_left);
    int buffer = 0;
    for (i64 left = k; left > 0; left -= kDepth, buffer ^= 1) {
      a_next.store(g.a_row == 1, a_tile[buffer]);
      b_next.store(g.b_column == 1, b_tile[buffer]);
      // Without it, rows that another warp has yet to store would be multiplied. One barrier a step
      // is enough: this buffer is written again two steps on, and to get there every warp passes
      // the barrier between, after its last read here.
      __syncthreads();
      if (left > kDepth) {
        a += kDepth * g.a_column;
        b += kDepth * g.b_row;
        a_next.load(a, a_source, clamp_left(left - kDepth), m_left);
        b_next.load(b, b_source, clamp_left(left - kDepth), n_left);
      }
      multiply_tile<Side>(a_tile[buffer], b_tile[buffer], ty, tx, sum);
      if (sums_rows)
        for (int p = 0; p < kDepth; ++p) row_sum += a_tile[buffer][p][threadIdx.x];
    }
    if constexpr (Ends) {
      finish_staged<T, Side>(g, &tiles[0][0][0], x.out, i0, j0, sum, packs);
    } else {
      float* const part = parts.at(g, z);
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const i64 i = i0 + Blocking<Side>::offset(ty, r);
        if (i >= g.m) continue;
#pragma unroll
        for (int c = 0; c < kEach; ++c) {
          const i64 j = j0 + Blocking<Side>::offset(tx, c);
          if (part) {
            if (c % 4 == 0 && j < parts.pitch)
              vstore(part + i * parts.pitch + j,
                     Pack<float, 4>{sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]});
            continue;
          }
          if (j >= g.n) continue;
          const float bias = g.bias ? float(static_cast<const T*>(g.bias)[j]) : 0.0f;
          // One element a store: for a row and c the 16 threads of tx are four floats apart, but
          // the four of c .. c + 3 fill the sectors together.
          finish(x.out[i * g.out_row + j], sum[r][c] + bias, g.accumulate);
        }
      }
    }
    if (sums_rows) finish_row_sum<T>(g, parts, i0 + threadIdx.x, row_sum);
    __syncthreads();  // the next batch index writes the first buffer again
  }
}

// Four neighbours along the contiguous axis can be read at once, wherever a row begins.
bool four_aligned(const MatmulArgs& g, const void* data, i64 lead, i64 MatmulArgs::Batch::*stride) {
  const i64 bytes = 4 * item_size(g.dtype);
  if (reinterpret_cast<uintptr_t>(data) % uintptr_t(bytes) != 0 || lead % 4 != 0) return false;
  for (int d = 0; d < g.batch_ndim; ++d)
    if (g.batch[d].*stride % 4 != 0) return false;
  return true;
}

template <class T, int Side, bool Ends = false>
void launch_tiled(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  Config c = tile_grid(g, l, Side, Side, kTiledThreads);
  c.grid.y = unsigned(parts.count);
  launch<matmul_tiled<T, Side, Ends>>(
      c, g, parts, g.batches(),
      four_aligned(g, g.a, g.a_column == 1 ? g.a_row : g.a_column, &MatmulArgs::Batch::a),
      four_aligned(g, g.b, g.b_column == 1 ? g.b_row : g.b_column, &MatmulArgs::Batch::b),
      packs_aligned(g, kStaged));
}

template <class T, bool Ends>
void launch_tiled(const MatmulArgs& g, const Launch& l) {
  const KParts whole{.each = g.k};
  // Large tiles read each operand less often but need enough of them to fill the machine.
  // 64 tiles are half of an H100's 132 processors.
  if (double(tiles(g.m, 128)) * tiles(g.n, 128) * double(g.batches()) >= 64)
    launch_tiled<T, 128, Ends>(g, l, whole);
  else
    launch_tiled<T, 64, Ends>(g, l, whole);
}

void tiled(const MatmulArgs& g, const Launch& l) {
  with_float(g.dtype, [&]<class T>(TypeTag<T>) {
    g.epilogue ? launch_tiled<T, true>(g, l) : launch_tiled<T, false>(g, l);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
