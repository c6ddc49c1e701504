// The matrix product with a pipeline of asynchronous copies: as the tensor-core rung, but tiles go
// from global to shared memory without a register on their way.
//
// That rung asks for one tile ahead and holds it in registers (16 of 220 a thread, and the
// addresses). What it can hide is the time of one step, some 500 cycles of mma; memory takes as
// long when it is idle and longer under load. Here three tiles are under way while the fourth is
// multiplied, and the registers are left to the sums, so that two blocks share a processor: one
// multiplies while the other waits at its barrier.
//
// Shared memory has no padding: a row's 16-byte pieces are permuted instead ("swizzled"), by which
// the 8 rows of an ldmatrix lie in different banks. Four stages would be 16 KiB of padding.
#pragma once
#include "warptape/kernels/device/async_copy.cuh"
#include "warptape/kernels/matmul/matmul_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// 16 KiB a stage, 64 KiB a block: two of them fit an A100's 164 KiB and an H100's 228. More than
// the 48 KiB of static shared memory, hence dynamic; launch() asks CUDA for it.
constexpr int kStages = 4;

// X lines of the matrix by kMmaDepth of p, as MmaTile. Along: contiguous along p.
template <class T, int X, bool Along>
struct SwizzledTile {
  static constexpr int kOuter = Along ? X : kMmaDepth, kInner = Along ? kMmaDepth : X;
  static constexpr int kRow = kInner / 8, kPieces = kOuter * kRow;  // of 16 bytes
  static_assert(kRow == 4 || kRow % 8 == 0);
  alignas(16) T v[kPieces][8];

  // Where piece `piece` of row `o` lies. Shared memory has 8 places of 16 bytes side by side. Rows
  // of 64 bytes: two fill the 8, and after two rows the pieces move by an exclusive or with the
  // number of the pair. Longer rows: all begin at the first place, so each row has its own of 8
  // permutations.
  __device__ __forceinline__ static constexpr int place(int o, int piece) {
    return o * kRow + (piece ^ (kRow == 4 ? o / 2 % 4 : o % 8));
  }
  // Four 8 x 8 matrices: lines x .. x+15 by p .. p+15; see MmaTile.
  __device__ __forceinline__ void fragments(uint32_t (&r)[4], int x, int p, bool p_second) const {
    const int lane = int(threadIdx.x) % 32, eight = lane % 8;
    const int second = lane / 8 % 2, third = lane / 16;
    const int dx = p_second ? third : second, dp = p_second ? second : third;
    if constexpr (Along)
      ldmatrix<4, false>(r, v[place(x + 8 * dx + eight, p / 8 + dp)]);
    else
      ldmatrix<4, true>(r, v[place(p + 8 * dp + eight, x / 8 + dx)]);
  }
  __device__ __forceinline__ float at(int x, int p) const {
    const int o = Along ? x : p, n = Along ? p : x;
    return float(v[place(o, n / 8)][n % 8]);
  }

  // The thread's first piece of a tile; the next ones are Threads pieces on, whole rows: so one
  // pointer serves all of them, and one place, as the permutations come again every 8 rows.
  template <int Threads>
  __device__ __forceinline__ static const T* mine(const T* from, i64 lead) {
    static_assert(Threads % (8 * kRow) == 0 && kPieces % Threads == 0);
    return from + int(threadIdx.x) / kRow * lead + int(threadIdx.x) % kRow * 8;
  }
  // Asks for the tile. `from`: mine(); `lead`: elements from one contiguous run to the next; x_left
  // and p_left: how far the operand reaches from the tile's first element. What lies outside is
  // zero and not read, which costs no branch: the copy is told how many bytes there are. So whole
  // tiles and edges have one loop.
  template <int Threads>
  __device__ __forceinline__ void copy(const T* from, i64 lead, int x_left, int p_left) {
    const int o = int(threadIdx.x) / kRow, n = int(threadIdx.x) % kRow;
    const int outers = Along ? x_left : p_left, inners = Along ? p_left : x_left;
    int bytes = 2 * inners - 16 * n;
    bytes = bytes < 0 ? 0 : bytes < 16 ? bytes : 16;
    // Neighbouring threads copy neighbouring pieces: of 64-byte rows four threads two sectors. In
    // shared memory 8 of them fill 8 different places, whatever the permutation.
    T* const to = v[place(o, n)];
#pragma unroll
    for (int i = 0; i < kPieces / Threads; ++i) {
      const int row = i * (Threads / kRow);
      cp_async<16>(to + i * Threads * 8, from + row * lead, o + row < outers ? bytes : 0);
    }
  }
};

// Whether the 8 rows that an ldmatrix reads, from any first row and of any piece, lie in 8
// different places.
template <class Tile>
constexpr bool conflict_free() {
  for (int o = 0; o < Tile::kOuter; o += 8)
    for (int piece = 0; piece < Tile::kRow; ++piece) {
      unsigned places = 0;
      for (int r = 0; r < 8; ++r) places |= 1u << Tile::place(o + r, piece) % 8;
      if (places != 0xff) return false;
    }
  return true;
}

// TA, TB, Ends, `packs`: as of matmul_mma.
template <class T, bool TA, bool TB, bool Ends>
__global__ void __launch_bounds__(LargeMma::kThreads, 2)
    matmul_pipelined(const __grid_constant__ MatmulArgs g, const __grid_constant__ KParts parts,
                     i64 batches, bool packs) {
  using S = LargeMma;
  constexpr int kTilesM = S::kWarpRows / 16;
  using ATile = SwizzledTile<T, S::kRows, !TA>;
  using BTile = SwizzledTile<T, S::kColumns, TB>;
  static_assert(conflict_free<ATile>() && conflict_free<BTile>());
  struct Stage {
    ATile a;
    BTile b;
  };
  static_assert(kStages * sizeof(Stage) >= kBandBytes<S>);
  WT_DYN_SHARED(Stage, stages);
  const TilePlace place = tile_place(blockIdx.x, u32((g.m + S::kRows - 1) / S::kRows),
                                     u32((g.n + S::kColumns - 1) / S::kColumns));
  const i64 i0 = place.row * S::kRows, j0 = place.column * S::kColumns;
  const int warp = int(threadIdx.x) / 32;
  const int warp_row = warp / (S::kColumns / S::kWarpColumns) * S::kWarpRows;
  const int warp_column = warp % (S::kColumns / S::kWarpColumns) * S::kWarpColumns;
  const i64 a_lead = TA ? g.a_column : g.a_row, b_lead = TB ? g.b_column : g.b_row;
  const int m_left = clamp_left(g.m - i0), n_left = clamp_left(g.n - j0);
  const bool sums_rows = g.row_sum && j0 == 0 && threadIdx.x < S::kRows;

  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const Matrices<T> x = matrices_at<T>(g, z);
    const i64 k0 = parts.first(), k = parts.terms(g.k);
    const T* a = ATile::template mine<S::kThreads>(x.a + i0 * g.a_row + k0 * g.a_column, a_lead);
    const T* b = BTile::template mine<S::kThreads>(x.b + j0 * g.b_column + k0 * g.b_row, b_lead);
    // Asks for the next tiles; `left`: of k, from their first element on.
    const auto ask = [&](Stage& to, i64 left) WT_INLINE_LAMBDA {
      if (left > 0) {
        to.a.template copy<S::kThreads>(a, a_lead, m_left, clamp_left(left));
        to.b.template copy<S::kThreads>(b, b_lead, n_left, clamp_left(left));
        a += kMmaDepth * g.a_column;
        b += kMmaDepth * g.b_row;
      }
      // Empty groups at the end: the wait below counts groups, so each step has to make one.
      cp_async_commit();
    };
    float sum[kTilesM][4][4] = {};
    float row_sum = 0;
    for (int s = 0; s < kStages - 1; ++s) ask(stages[s], k - s * kMmaDepth);
    int stage = 0;
    for (i64 left = k; left > 0; left -= kMmaDepth) {
      // All but the two youngest groups, so that of this step has landed: my part of it. The
      // barrier is for the others' parts, and for the stage that ask() fills: the one that was
      // multiplied in the step before, by warps that may have been behind this one.
      cp_async_wait<kStages - 2>();
      __syncthreads();
      ask(stages[(stage + kStages - 1) % kStages], left - (kStages - 1) * kMmaDepth);
#pragma unroll
      for (int p = 0; p < kMmaDepth; p += 16)
        multiply_16<T>(stages[stage].a, stages[stage].b, p, warp_row, warp_column, sum);
      if (sums_rows)
        for (int p = 0; p < kMmaDepth; ++p) row_sum += stages[stage].a.at(int(threadIdx.x), p);
      stage = (stage + 1) % kStages;
    }
    if constexpr (Ends)
      finish_staged<T, S>(g, stages, x.out, i0, j0, sum, packs);
    else
      finish_warp(g, parts, x.out, z, i0 + warp_row, j0 + warp_column, sum, packs);
    if (sums_rows) finish_row_sum<T>(g, parts, i0 + threadIdx.x, row_sum);
    __syncthreads();  // the next batch index fills the first stages again
  }
}

template <class T, bool TA, bool TB, bool Ends>
void launch_pipelined(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  using S = LargeMma;
  Config c = tile_grid(g, l, S::kRows, S::kColumns, S::kThreads);
  c.grid.y = unsigned(parts.count);
  c.shared_bytes = size_t(kStages) * (S::kRows + S::kColumns) * kMmaDepth * sizeof(T);
  launch<matmul_pipelined<T, TA, TB, Ends>>(c, g, parts, g.batches(),
                                            packs_aligned(g, Ends ? kStaged : 2));
}

template <class T, bool Ends = false>
void launch_pipelined(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  const bool ta = g.a_column != 1, tb = g.b_column != 1;
  if (!ta)
    tb ? launch_pipelined<T, false, true, Ends>(g, l, parts)
       : launch_pipelined<T, false, false, Ends>(g, l, parts);
  else if constexpr (!Ends)
    tb ? launch_pipelined<T, true, true, false>(g, l, parts)
       : launch_pipelined<T, true, false, false>(g, l, parts);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
