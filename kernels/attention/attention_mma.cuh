// Attention on tensor cores: what forward and backward share. A warp makes 16 rows of scores (of
// queries, or of keys) as mma.m16n8k16 tiles; what one product leaves in registers is the first
// operand of the next, so that scores are never in memory, not even in shared memory (Dao 2023,
// arXiv:2307.08691). Products of 16-bit numbers are added in f32; probabilities and their gradients
// are rounded to 16 bits between the two products.
//
// Two rungs are made of it. tensor_core loads a tile when it is needed: all warps wait for memory
// between two barriers, and other blocks alone can hide that. pipelined has two stages of tiles in
// shared memory: while one is multiplied, cp.async fills the other, without a register.
#pragma once
#include "warptape/kernels/attention/attention.cuh"
#include "warptape/kernels/device/async_copy.cuh"
#include "warptape/kernels/device/mma_tile.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

void attention_mma_forward(const AttentionForwardArgs& a, const Launch& l);
void attention_pipelined_forward(const AttentionForwardArgs& a, const Launch& l);
// D lies in the workspace already.
void attention_mma_queries(const AttentionBackwardArgs& a, const Launch& l);
void attention_pipelined_queries(const AttentionBackwardArgs& a, const Launch& l);
void attention_mma_keys(const AttentionBackwardArgs& a, const Launch& l);
void attention_pipelined_keys(const AttentionBackwardArgs& a, const Launch& l);

namespace {

constexpr int kWidestMma = 128;  // elements of a vector: its fragments are a quarter of a thread's
                                 // registers, and the sums another
constexpr int kMmaWarps = kAttentionThreads / 32, kMmaRows = 16 * kMmaWarps;  // rows of a block

inline const char* why_not_attention_mma(const AttentionScores& s, const View& v) {
  const DType t = s.q.dtype();
  if (t != DType::f16 && t != DType::bf16) return "takes f16 and bf16 only";
  return s.q.size(3) > kWidestMma || v.size(3) > kWidestMma ? "vectors of at most 128 elements"
                                                            : nullptr;
}
// cp.async moves 16 bytes between addresses that are multiples of 16.
inline bool in_pieces(const View& v) {
  bool whole = v.stride(3) == 1 && aligned_16(v.data);
  for (int d = 0; d < 3; ++d) whole = whole && (v.size(d) < 2 || v.stride(d) % 8 == 0);
  return whole;
}
// tiles: the operands that come by tiles.
template <class... Views>
const char* why_not_attention_pipelined(const AttentionScores& s, const View& v,
                                        const Views&... tiles) {
  if (const char* why = why_not_attention_mma(s, v)) return why;
  return (in_pieces(tiles) && ...) ? nullptr
                                   : "takes vectors of neighbours at multiples of 16 bytes";
}
inline const char* why_not_attention_mma_on(const DeviceLimits& d) {
  return d.major >= 8 ? nullptr : "mma.m16n8k16 needs compute capability 8.0";
}

// Vectors of one head in shared memory as they are in device memory, zeros behind the last one and
// behind each one's end. The 8 elements more a row put the 8 rows of an ldmatrix into different
// banks: a row is 16 bytes more than a multiple of 64. Of two stages of the largest tiles they are
// 4 of 68 KiB, and unlike a permutation of the pieces they leave every address a sum.
template <class T, int Rows, int W>
struct MmaVectors {
  static constexpr int kRow = W / 8;  // pieces of 16 bytes
  static constexpr int kEach = Rows * kRow / kAttentionThreads;
  static_assert(Rows * kRow % kAttentionThreads == 0 && kAttentionThreads % (8 * kRow) == 0);
  alignas(16) T v[Rows][W + 8];

  // Where this thread's first piece lies; its others are kAttentionThreads / kRow rows on.
  // Neighbouring threads have neighbouring pieces. Eight of them are stored at a time: where that
  // is two rows, those 4 rows apart lie in different banks, and neighbours do not.
  struct Mine {
    int row, e;
  };
  __device__ __forceinline__ static Mine mine() {
    const int t = int(threadIdx.x), row = t / kRow;
    return {kRow == 4 ? row / 8 * 8 + row % 2 * 4 + row % 8 / 2 : row, t % kRow * 8};
  }

  // Vectors first, first + 1, ... of `rows`. Async: asked for by cp.async, for operands that are
  // in_pieces().
  template <bool Async = false>
  __device__ __forceinline__ void load(const T* head, i64 row, i64 step, i64 first, i64 rows,
                                       int width) {
    constexpr int kNext = kAttentionThreads / kRow;
    const T* from = head + first * row;
    const Mine at = mine();
    if constexpr (Async) {
      // What lies outside is zero and not read, which costs no branch: the copy is told how many
      // bytes there are.
      const int left = rows - first < Rows ? int(rows - first) : Rows;
      int bytes = 2 * (width - at.e);
      bytes = bytes < 0 ? 0 : bytes < 16 ? bytes : 16;
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int r = at.row + k * kNext;
        cp_async<16>(&v[r][at.e], from + r * row + at.e, r < left ? bytes : 0);
      }
      return;
    }
    if (step == 1 && row % 8 == 0 && width == W && first + Rows <= rows && aligned_16(from)) {
      // All of a thread's pieces leave memory before the first is put down.
      Pack<T, 8> piece[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        piece[k] = vload<Pack<T, 8>>(from + (at.row + k * kNext) * row + at.e);
#pragma unroll
      for (int k = 0; k < kEach; ++k) vstore(&v[at.row + k * kNext][at.e], piece[k]);
      return;
    }
    for (int i = int(threadIdx.x); i < Rows * W; i += kAttentionThreads) {
      const int r = i / W, e = i % W;
      v[r][e] = first + r < rows && e < width ? from[r * row + e * step] : T(0.0f);
    }
  }
  // The first operand of a product along the elements: vectors row .. row + 15, elements
  // e .. e + 15. Lane l names row l % 8 of 8 x 8 matrix l / 8.
  __device__ __forceinline__ void rows_of(uint32_t (&r)[4], int row, int e) const {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix<4, false>(r, &v[row + lane / 8 % 2 * 8 + lane % 8][e + lane / 16 * 8]);
  }
  // The second operand of a product along the elements: r[0], r[1] are of vectors row .. row + 7,
  // r[2], r[3] of the 8 after them.
  __device__ __forceinline__ void along(uint32_t (&r)[4], int row, int e) const {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix<4, false>(r, &v[row + lane / 16 * 8 + lane % 8][e + lane / 8 % 2 * 8]);
  }
  // The second operand of a product along the vectors: r[0], r[1] are of elements e .. e + 7, r[2],
  // r[3] of the 8 after them. mma wants neighbours along the product in one register, memory has
  // neighbours along the elements: `trans` turns each matrix on the way.
  __device__ __forceinline__ void across(uint32_t (&r)[4], int row, int e) const {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix<4, true>(r, &v[row + lane / 8 % 2 * 8 + lane % 8][e + lane / 16 * 8]);
  }
};

// A warp's 16 vectors as first operands.
template <class T, int W>
struct MmaOwn {
  uint32_t r[W / 16][4];
  template <class Tile>
  __device__ __forceinline__ void take(const Tile& from, int row) {
#pragma unroll
    for (int e = 0; e < W / 16; ++e) from.rows_of(r[e], row, 16 * e);
  }
};

// The stages of tiles in shared memory. ask(stage, place) puts the tiles of a place there, nothing
// behind the last one; by cp.async where there are two stages.
template <int Stages, class Stage>
struct StageRing {
  static_assert(Stages == 1 || Stages == 2);
  Stage* stages;
  int now = 0;

  // Not asked for until the first next().
  __device__ __forceinline__ Stage& spare() const { return stages[Stages - 1]; }
  template <class Ask, class Place>
  __device__ __forceinline__ void begin(Ask&& ask, const Place& first) const {
    if constexpr (Stages > 1) {
      ask(stages[0], first);
      cp_async_commit();
    }
  }
  // The tiles of `here`.
  template <class Ask, class Place>
  __device__ __forceinline__ Stage& next(Ask&& ask, const Place& here, const Place& after) {
    if constexpr (Stages > 1) {
      // My part of these tiles has landed. The barrier is for the others' parts, and for the stage
      // that ask() fills: warps that may have been behind this one have multiplied it.
      cp_async_wait<0>();
      __syncthreads();
      Stage& landed = stages[now];
      now ^= 1;
      ask(stages[now], after);
      cp_async_commit();
      return landed;
    } else {
      __syncthreads();  // everybody is done with the tiles before
      ask(stages[0], here);
      __syncthreads();
      return stages[0];
    }
  }
};

// x[n] += own vectors times vectors 8 n .. 8 n + 7 of the tile, along the elements.
template <class T, int W, int N, class Tile>
__device__ __forceinline__ void multiply_along(float (&x)[N][4], const MmaOwn<T, W>& own,
                                               const Tile& tile) {
#pragma unroll
  for (int e = 0; e < W / 16; ++e)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t f[4];
      tile.along(f, 8 * n, 16 * e);
      mma_m16n8k16<T>(x[n], own.r[e], {f[0], f[1]});
      mma_m16n8k16<T>(x[n + 1], own.r[e], {f[2], f[3]});
    }
}

// Two neighbours of a row in one register, as operands have them.
template <class T>
__device__ __forceinline__ uint32_t pair_of(float first, float second) {
  return __builtin_bit_cast(uint32_t, Pack<T, 2>{T(first), T(second)});
}

// y += p times the tile's vectors. p: what products left, 16 rows by 8 N vectors: its registers are
// those of a first operand, but for the rounding.
template <class T, int W, int N, class Tile>
__device__ __forceinline__ void multiply_across(float (&y)[W / 8][4], const float (&p)[N][4],
                                                const Tile& tile) {
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    const uint32_t a[4] = {pair_of<T>(p[n][0], p[n][1]), pair_of<T>(p[n][2], p[n][3]),
                           pair_of<T>(p[n + 1][0], p[n + 1][1]),
                           pair_of<T>(p[n + 1][2], p[n + 1][3])};
#pragma unroll
    for (int e = 0; e < W / 16; ++e) {
      uint32_t f[4];
      tile.across(f, 8 * n, 16 * e);
      mma_m16n8k16<T>(y[2 * e], a, {f[0], f[1]});
      mma_m16n8k16<T>(y[2 * e + 1], a, {f[2], f[3]});
    }
  }
}

// Of a warp's sums the elements that this thread holds of one row: half 0 is row lane / 4, half 1
// the eighth after it.
template <class T, int W>
__device__ __forceinline__ void store_row(const float (&y)[W / 8][4], int half, T* to, i64 step,
                                          int width, float factor) {
  const int lane = int(threadIdx.x) % 32;
  const bool pairs = step == 1 && width % 2 == 0 && reinterpret_cast<uintptr_t>(to) % 4 == 0;
#pragma unroll
  for (int n = 0; n < W / 8; ++n) {
    const int e = 8 * n + lane % 4 * 2;
    const float first = y[n][2 * half] * factor, second = y[n][2 * half + 1] * factor;
    if (pairs && e < width) {
      vstore(to + e, Pack<T, 2>{T(first), T(second)});
    } else {
      if (e < width) to[e * step] = T(first);
      if (e + 1 < width) to[(e + 1) * step] = T(second);
    }
  }
}

// --- backward ---
// Tiles are 32 vectors: two products' scores are in registers at a time.

constexpr int kTile32 = 32;

// This warp's 16 vectors of the block's 64, by way of two tiles.
template <class T, int W, class Tile>
__device__ __forceinline__ void take_own(MmaOwn<T, W>& own, Tile& low, Tile& high, const T* head,
                                         const HeadRows<const T>& from, i64 first, i64 rows,
                                         int width) {
  low.load(head, from.row, from.step, first, rows, width);
  high.load(head, from.row, from.step, first + kTile32, rows, width);
  __syncthreads();
  const int warp = int(threadIdx.x) / 32;
  own.take(warp < 2 ? low : high, warp % 2 * 16);
}

// Calls f with the number of elements that vectors are padded to.
template <class F>
void with_mma_width(const AttentionScores& s, const View& v, F&& f) {
  const i64 widest = s.q.size(3) > v.size(3) ? s.q.size(3) : v.size(3);
  if (widest <= 32)
    f(std::integral_constant<int, 32>{});
  else if (widest <= 64)
    f(std::integral_constant<int, 64>{});
  else
    f(std::integral_constant<int, kWidestMma>{});
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
