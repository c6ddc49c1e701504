// The tensor-core rung of the matrix product: mma.m16n8k16 on 16-bit operands, f32 accumulation.
//
// A block of warps makes kRows x kColumns elements, a warp 4 x 4 (or 2 x 4) mma tiles of them. An
// operand's tile keeps the orientation it has in memory, so that 16-byte pieces are copied as they
// are; ldmatrix turns it on the way to the registers. Rows of shared memory are padded by 16 bytes:
// the 8 rows of an ldmatrix then lie in different banks.
#pragma once
#include "warptape/kernels/device/mma_tile.cuh"
#include "warptape/kernels/matmul/matmul_finish.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// One thread's 16-byte pieces of a tile on their way from global to shared memory.
template <class T, int X, bool Along, int Threads>
struct MmaLoader {
  using Tile = MmaTile<T, X, Along>;
  static constexpr int kEach = Tile::kPieces / Threads;
  Pack<T, 8> piece[kEach];

  __device__ __forceinline__ static int outer(int i) {
    return (int(threadIdx.x) + i * Threads) / (Tile::kInner / 8);
  }
  __device__ __forceinline__ static int inner(int i) {
    return (int(threadIdx.x) + i * Threads) % (Tile::kInner / 8) * 8;
  }
  // `from`: the tile's first element; `lead`: elements from one contiguous run to the next; x_left
  // and p_left: how far the operand reaches from there. What lies outside is zero.
  __device__ __forceinline__ void load(const T* from, i64 lead, int x_left, int p_left) {
    const int outers = Along ? x_left : p_left, inners = Along ? p_left : x_left;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int o = outer(i), n = inner(i);
      const T* at = from + o * lead + n;
      if (o < outers && n + 8 <= inners) {
        piece[i] = vload<Pack<T, 8>>(at);
      } else {
        // At the edge one by one. Zeros add nothing to a sum, so no loop below asks where the edge
        // is.
#pragma unroll
        for (int e = 0; e < 8; ++e) piece[i].v[e] = o < outers && n + e < inners ? at[e] : T(0.0f);
      }
    }
  }
  // Of a tile that lies inside. Without the branches of an edge: where two ways meet, nvcc waits
  // for what either has asked for, and one piece after the other would come before the products.
  __device__ __forceinline__ void load_whole(const T* from, i64 lead) {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      // 16 bytes a thread, the most that one instruction carries: a warp asks for 512 bytes in 16
      // sectors.
      piece[i] = vload<Pack<T, 8>>(from + outer(i) * lead + inner(i));
  }
  __device__ __forceinline__ void store(Tile& to) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) vstore(&to.v[outer(i)][inner(i)], piece[i]);
  }
};

// Block of Warps_M x Warps_N warps; a warp makes Tiles_M x 4 mma tiles of 16 x 8.
template <int WarpsM, int WarpsN, int TilesM>
struct MmaShape {
  static constexpr int kThreads = 32 * WarpsM * WarpsN;
  // That a processor is to hold: 128 registers a thread for four small blocks, all 255 for a large
  // one, which would spill with fewer.
  static constexpr int kBlocks = kThreads <= 128 ? 4 : 1;
  static constexpr int kWarpRows = 16 * TilesM, kWarpColumns = 32;
  static constexpr int kRows = WarpsM * kWarpRows, kColumns = WarpsN * kWarpColumns;
};
// 128 x 128 needs 2 * 32 * (128 + 128) bytes a step for 2^19 multiplications, 64 x 64 half the
// bytes for a quarter of them: per byte from L2 the large tile computes twice as much.
using LargeMma = MmaShape<2, 4, 4>;  // 128 x 128, 256 threads
using SmallMma = MmaShape<2, 2, 2>;  // 64 x 64, 128 threads

// Adds the products of 16 p to a warp's sums; Tile has fragments() as MmaTile.
template <class T, int TilesM, class ATile, class BTile>
__device__ __forceinline__ void multiply_16(const ATile& a, const BTile& b, int p, int warp_row,
                                            int warp_column, float (&sum)[TilesM][4][4]) {
  // Of 64 x 32 elements a warp: 4 + 2 ldmatrix for 16 mma. Each fragment of a serves four mma, each
  // of b as many as the warp has tiles in a column; from shared memory anew for each they would be
  // the limit.
  uint32_t fa[TilesM][4], fb[2][4];
#pragma unroll
  for (int r = 0; r < TilesM; ++r) a.fragments(fa[r], warp_row + 16 * r, p, false);
#pragma unroll
  for (int c = 0; c < 2; ++c) b.fragments(fb[c], warp_column + 16 * c, p, true);
#pragma unroll
  for (int r = 0; r < TilesM; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      // 2048 products and sums an instruction. Neighbours in this order have different sums, so
      // that none waits for the result of the one before it. p ascends in every sum and no other
      // block adds to it: the same operands give the same bits.
      mma_m16n8k16<T>(sum[r][c], fa[r], {fb[c / 2][c % 2 * 2], fb[c / 2][c % 2 * 2 + 1]});
}

// A warp's sums to memory; i, j: the first of them.
template <class T, int TilesM>
__device__ __forceinline__ void finish_warp(const MatmulArgs& g, const KParts& parts, T* out, i64 z,
                                            i64 i, i64 j, const float (&sum)[TilesM][4][4],
                                            bool pairs) {
  const int lane = int(threadIdx.x) % 32;
  // d0, d1 of a tile are row lane / 4, columns 2 (lane % 4) and the next; d2, d3 8 rows below.
  i += lane / 4;
  j += lane % 4 * 2;
  float* const part = parts.at(g, z);
#pragma unroll
  for (int r = 0; r < TilesM; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (part) {  // four lanes fill a sector of a row
        if (j + 8 * c >= parts.pitch) continue;
        float* const at = part + (i + 16 * r) * parts.pitch + j + 8 * c;
        if (i + 16 * r < g.m) vstore(at, Pack<float, 2>{sum[r][c][0], sum[r][c][1]});
        if (i + 16 * r + 8 < g.m)
          vstore(at + 8 * parts.pitch, Pack<float, 2>{sum[r][c][2], sum[r][c][3]});
        continue;
      }
      finish_pair(g, out, i + 16 * r, j + 8 * c, sum[r][c][0], sum[r][c][1], pairs);
      finish_pair(g, out, i + 16 * r + 8, j + 8 * c, sum[r][c][2], sum[r][c][3], pairs);
    }
}

// Rows of a band in shared memory: eight more floats than columns, so that the eight rows of a
// store by fragments begin in four different quarters of the banks, half a warp at a time.
template <class S>
constexpr int kBandPitch = S::kColumns + 8;
template <class S>
constexpr int kBandBytes = S::kWarpRows* kBandPitch<S> * 4;

// The sums of a block with an epilogue: a row of warps a band. `memory`: kBandBytes.
template <class T, class S>
__device__ __forceinline__ void finish_staged(const MatmulArgs& g, void* memory, T* out, i64 i0,
                                              i64 j0, const float (&sum)[S::kWarpRows / 16][4][4],
                                              bool packs) {
  float* const band = static_cast<float*>(memory);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  constexpr int kWarpsN = S::kColumns / S::kWarpColumns;
  float* const mine =
      band + lane / 4 * kBandPitch<S> + warp % kWarpsN * S::kWarpColumns + lane % 4 * 2;
#pragma unroll 1
  for (int b = 0; b < S::kRows / S::kWarpRows; ++b) {
    __syncthreads();  // the tiles, or the band before, have been read
    if (warp / kWarpsN == b) {
#pragma unroll
      for (int r = 0; r < S::kWarpRows / 16; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
#pragma unroll
          for (int h = 0; h < 2; ++h)  // the row, and that 8 rows below
            vstore(mine + (16 * r + 8 * h) * kBandPitch<S> + 8 * c,
                   Pack<float, 2>{sum[r][c][2 * h], sum[r][c][2 * h + 1]});
    }
    __syncthreads();
    finish_band<T, S::kWarpRows, S::kColumns, S::kThreads>(g, band, kBandPitch<S>, out,
                                                           i0 + b * S::kWarpRows, j0, packs);
  }
}

// TA, TB: stored transposed. Ends: with an epilogue, and not in parts; a kernel of its own, for
// what an epilogue keeps in registers makes the loop slower. `packs`: two neighbours of out (with
// an epilogue, four of all that it reads and writes) may be moved at once.
template <class T, class S, bool TA, bool TB, bool Ends>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    matmul_mma(const __grid_constant__ MatmulArgs g, const __grid_constant__ KParts parts,
               i64 batches, bool packs) {
  constexpr int kTilesM = S::kWarpRows / 16;
  using ATile = MmaTile<T, S::kRows, !TA>;
  using BTile = MmaTile<T, S::kColumns, TB>;
  // A buffer is multiplied while the other is filled: see the loop.
  struct Tiles {
    ATile a[2];
    BTile b[2];
  };
  WT_SHARED(Tiles, tiles, [1]);
  static_assert(sizeof(Tiles) >= kBandBytes<S>);
  ATile(&a_tile)[2] = tiles[0].a;
  BTile(&b_tile)[2] = tiles[0].b;
  const TilePlace place = tile_place(blockIdx.x, u32((g.m + S::kRows - 1) / S::kRows),
                                     u32((g.n + S::kColumns - 1) / S::kColumns));
  // i0, j0: the block's corner of out; warp_row, warp_column: the warp's, from there.
  const i64 i0 = place.row * S::kRows, j0 = place.column * S::kColumns;
  const int warp = int(threadIdx.x) / 32;
  const int warp_row = warp / (S::kColumns / S::kWarpColumns) * S::kWarpRows;
  const int warp_column = warp % (S::kColumns / S::kWarpColumns) * S::kWarpColumns;
  const i64 a_lead = TA ? g.a_column : g.a_row, b_lead = TB ? g.b_column : g.b_row;
  const bool sums_rows = g.row_sum && j0 == 0 && threadIdx.x < S::kRows;

  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const Matrices<T> x = matrices_at<T>(g, z);
    const T* a = x.a + i0 * g.a_row + parts.first() * g.a_column;
    const T* b = x.b + j0 * g.b_column + parts.first() * g.b_row;
    const i64 k = parts.terms(g.k);
    const int m_left = clamp_left(g.m - i0), n_left = clamp_left(g.n - j0);
    // Registers of a thread, large tiles: 64 sums, 16 + 8 of fragments, 8 + 8 of tiles on their
    // way; with addresses, and fragments read ahead, nvcc takes 220. 256 such threads are nearly
    // the 65,536 that a processor has: one block at a time, and no second one to compute while it
    // waits, so it has to load ahead itself. They are registers only because every loop over them
    // is unrolled: an array whose index is not a constant would go to local memory, which is DRAM
    // behind a cache.
    MmaLoader<T, S::kRows, !TA, S::kThreads> a_next;
    MmaLoader<T, S::kColumns, TB, S::kThreads> b_next;
    float sum[kTilesM][4][4] = {};
    float row_sum = 0;
    a_next.load(a, a_lead, m_left, clamp_left(k));
    b_next.load(b, b_lead, n_left, clamp_left(k));
    int buffer = 0;
    const auto put = [&]() WT_INLINE_LAMBDA {
      a_next.store(a_tile[buffer]);
      b_next.store(b_tile[buffer]);
      // Without it a warp multiplies what others have not written. A second barrier, between
      // reading this buffer and writing it again, is not needed: who writes it at step s + 2 has
      // passed the barrier of step s + 1, and no warp gets there before it has read what it needs
      // of step s.
      __syncthreads();
      a += kMmaDepth * g.a_column;
      b += kMmaDepth * g.b_row;
    };
    const auto multiply = [&]() WT_INLINE_LAMBDA {
#pragma unroll
      for (int p = 0; p < kMmaDepth; p += 16)
        multiply_16<T>(a_tile[buffer], b_tile[buffer], p, warp_row, warp_column, sum);
      if (sums_rows)
        // Blocks of the first column only; the tile is here anyway, so dy is not read again.
        for (int p = 0; p < kMmaDepth; ++p) row_sum += a_tile[buffer].at(int(threadIdx.x), p);
      buffer ^= 1;
    };
    // The tile of step s + 1 leaves memory before step s is multiplied and is put into shared
    // memory after it: its hundreds of cycles pass behind the mma instructions.
    i64 left = k;
    if (m_left >= S::kRows && n_left >= S::kColumns)
      for (; left >= 2 * kMmaDepth; left -= kMmaDepth) {
        put();
        a_next.load_whole(a, a_lead);
        b_next.load_whole(b, b_lead);
        multiply();
      }
    // At the edges of the matrices, and the last steps.
    for (; left > 0; left -= kMmaDepth) {
      put();
      if (left > kMmaDepth) {
        a_next.load(a, a_lead, m_left, clamp_left(left - kMmaDepth));
        b_next.load(b, b_lead, n_left, clamp_left(left - kMmaDepth));
      }
      multiply();
    }
    if constexpr (Ends)
      finish_staged<T, S>(g, tiles, x.out, i0, j0, sum, packs);
    else
      finish_warp(g, parts, x.out, z, i0 + warp_row, j0 + warp_column, sum, packs);
    if (sums_rows) finish_row_sum<T>(g, parts, i0 + threadIdx.x, row_sum);
    __syncthreads();  // the next batch index writes the first buffer again
  }
}

template <class T, class S, bool TA, bool TB, bool Ends>
void launch_mma(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  Config c = tile_grid(g, l, S::kRows, S::kColumns, S::kThreads);
  c.grid.y = unsigned(parts.count);
  launch<matmul_mma<T, S, TA, TB, Ends>>(c, g, parts, g.batches(),
                                         packs_aligned(g, Ends ? kStaged : 2));
}

// With an epilogue of an a as it is: see ends_in_kernel().
template <class T, class S, bool Ends = false>
void launch_mma(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  const bool ta = g.a_column != 1, tb = g.b_column != 1;
  if (!ta)
    tb ? launch_mma<T, S, false, true, Ends>(g, l, parts)
       : launch_mma<T, S, false, false, Ends>(g, l, parts);
  else if constexpr (!Ends)
    tb ? launch_mma<T, S, true, true, false>(g, l, parts)
       : launch_mma<T, S, true, false, false>(g, l, parts);
}

inline const char* tensor_core_why_not(const MatmulArgs& g) {
  if (!is_half(g.dtype)) return "takes f16 and bf16 only";
  const i64 a_lead = g.a_column == 1 ? g.a_row : g.a_column;
  const i64 b_lead = g.b_column == 1 ? g.b_row : g.b_column;
  bool aligned = aligned_16(g.a) && aligned_16(g.b) && a_lead % 8 == 0 && b_lead % 8 == 0;
  for (int d = 0; d < g.batch_ndim; ++d) aligned &= g.batch[d].a % 8 == 0 && g.batch[d].b % 8 == 0;
  return aligned ? nullptr : "needs rows of a and b that begin at multiples of 16 bytes";
}
inline const char* tensor_core_why_not_on(const MatmulArgs&, const DeviceLimits& d) {
  return d.major >= 8 ? nullptr : "mma.m16n8k16 needs compute capability 8.0";
}

}  // namespace

// matmul_tensor_core.cu
void tensor_core(const MatmulArgs& g, const Launch& l);
// matmul_small_tiles.cu: tiles of 64 x 64, for all of k and for parts of it.
void tensor_core_small(const MatmulArgs& g, const Launch& l);
void tensor_core_parts(const MatmulArgs& g, const Launch& l, const KParts& parts);

}  // namespace WT_DEVICE_NS
}  // namespace wt
