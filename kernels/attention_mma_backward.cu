// Scaled dot-product attention on tensor cores, backward: a kernel by query for gq, and by key one
// for gv and one for gk, which together would need more registers than a thread has. Tiles are 32
// vectors: two products' scores are in registers at a time.
#include "warptape/kernels/device/attention_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kTile32 = 32;

template <class T, int W>
__global__ void __launch_bounds__(kAttentionThreads) attention_queries_mma(AttentionBackward<T> a) {
  using Own = MmaVectors<T, kMmaRows, W>;
  using Tile = MmaVectors<T, kTile32, W>;
  WT_SHARED(Own, own_tile, );
  WT_SHARED(Tile, k_tile, );
  WT_SHARED(Tile, v_tile, );
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kMmaRows - 1) / kMmaRows;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kMmaRows;
  const i64 h = head % s.heads, b = head / s.heads, g = h / s.shared;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const i64 row = first + 16 * warp + lane / 4;
  MmaOwn<T, W> q, gout;
  own_tile.load(s.q.at(b, h), s.q.row, s.q.step, first, s.queries, s.depth);
  __syncthreads();
  q.take(own_tile, 16 * warp);
  __syncthreads();
  own_tile.load(a.gout.at(b, h), a.gout.row, a.gout.step, first, s.queries, a.width);
  __syncthreads();
  gout.take(own_tile, 16 * warp);
  float lse[2], whole[2], sum[W / 8][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 i = row + 8 * half;
    lse[half] = i < s.queries ? a.lse[head * s.queries + i] : 0.0f;
    whole[half] = i < s.queries ? a.whole[head * s.queries + i] : 0.0f;
  }
  const i64 keys = s.keys_of(first + kMmaRows - 1);
  for (i64 j0 = 0; j0 < keys; j0 += kTile32) {
    __syncthreads();
    k_tile.load(s.k.at(b, g), s.k.row, s.k.step, j0, s.keys, s.depth);
    v_tile.load(a.v.at(b, g), a.v.row, a.v.step, j0, s.keys, a.width);
    __syncthreads();
    float x[kTile32 / 8][4] = {}, d[kTile32 / 8][4] = {};
    multiply_along<T, W>(x, q, k_tile);
    multiply_along<T, W>(d, gout, v_tile);
#pragma unroll
    for (int n = 0; n < kTile32 / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const i64 i = row + c / 2 * 8, j = j0 + 8 * n + lane % 4 * 2 + c % 2;
        if (i < s.queries && j < s.keys) {
          // p is made anew from lse, one exponential instead of a matrix in memory.
          const float p = expf(s.score(b, h, i, j, x[n][c]) - lse[c / 2]);
          x[n][c] = p * (s.keep(b, h, i, j) * d[n][c] - whole[c / 2]) * s.scale;
        } else {
          x[n][c] = 0;
        }
      }
    multiply_across<T, W>(sum, x, k_tile);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (const i64 i = row + 8 * half; i < s.queries)
      store_row<T, W>(sum, half, a.gq.at(b, h, i), a.gq.step, s.depth, 1.0f);
}

// OfValues: gv, which needs no values; else gk.
template <class T, int W, bool OfValues>
__global__ void __launch_bounds__(kAttentionThreads) attention_keys_mma(AttentionBackward<T> a) {
  using Own = MmaVectors<T, kMmaRows, W>;
  using Tile = MmaVectors<T, kTile32, W>;
  WT_SHARED(Own, own_tile, );
  WT_SHARED(Tile, q_tile, );
  WT_SHARED(Tile, g_tile, );
  WT_SHARED(float, lse_tile, [kTile32]);
  WT_SHARED(float, whole_tile, [kTile32]);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.keys + kMmaRows - 1) / kMmaRows;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kMmaRows;
  const i64 g = head % s.groups, b = head / s.groups;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const i64 row = first + 16 * warp + lane / 4;
  MmaOwn<T, W> k, v;
  own_tile.load(s.k.at(b, g), s.k.row, s.k.step, first, s.keys, s.depth);
  __syncthreads();
  k.take(own_tile, 16 * warp);
  if constexpr (!OfValues) {
    __syncthreads();
    own_tile.load(a.v.at(b, g), a.v.row, a.v.step, first, s.keys, a.width);
    __syncthreads();
    v.take(own_tile, 16 * warp);
  }
  float sum[W / 8][4] = {};
  for (i64 h = g * s.shared; h < (g + 1) * s.shared; ++h)
    // Under `causal` no query before the block's first key sees any of its keys.
    for (i64 i0 = s.causal ? first / kTile32 * kTile32 : 0; i0 < s.queries; i0 += kTile32) {
      __syncthreads();
      q_tile.load(s.q.at(b, h), s.q.row, s.q.step, i0, s.queries, s.depth);
      g_tile.load(a.gout.at(b, h), a.gout.row, a.gout.step, i0, s.queries, a.width);
      if (threadIdx.x < kTile32 && i0 + threadIdx.x < s.queries) {
        const i64 at = (b * s.heads + h) * s.queries + i0 + threadIdx.x;
        lse_tile[threadIdx.x] = a.lse[at];
        whole_tile[threadIdx.x] = a.whole[at];
      }
      __syncthreads();
      // Keys are rows here and queries columns: the scores' other half.
      float x[kTile32 / 8][4] = {}, d[kTile32 / 8][4] = {};
      multiply_along<T, W>(x, k, q_tile);
      if constexpr (!OfValues) multiply_along<T, W>(d, v, g_tile);
#pragma unroll
      for (int n = 0; n < kTile32 / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int column = 8 * n + lane % 4 * 2 + c % 2;
          const i64 i = i0 + column, j = row + c / 2 * 8;
          float value = 0;
          if (i < s.queries && j < s.keys) {
            const float p = expf(s.score(b, h, i, j, x[n][c]) - lse_tile[column]);
            const float keep = s.keep(b, h, i, j);
            value = OfValues ? keep * p : p * (keep * d[n][c] - whole_tile[column]) * s.scale;
          }
          x[n][c] = value;
        }
      if constexpr (OfValues)
        multiply_across<T, W>(sum, x, g_tile);
      else
        multiply_across<T, W>(sum, x, q_tile);
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 j = row + 8 * half;
    if (j >= s.keys) continue;
    if constexpr (OfValues)
      store_row<T, W>(sum, half, a.gv.at(b, g, j), a.gv.step, a.width, 1.0f);
    else
      store_row<T, W>(sum, half, a.gk.at(b, g, j), a.gk.step, s.depth, 1.0f);
  }
}

}  // namespace

void attention_mma_backward(const AttentionBackwardArgs& a, const Launch& l) {
  with_half(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const Config queries =
        grid_of(l, ceil_div(k.s.queries, kMmaRows) * k.s.batches * k.s.heads, kAttentionThreads);
    const Config keys =
        grid_of(l, ceil_div(k.s.keys, kMmaRows) * k.s.batches * k.s.groups, kAttentionThreads);
    with_mma_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch<attention_queries_mma<T, W>>(queries, k);
      launch<attention_keys_mma<T, W, true>>(keys, k);
      launch<attention_keys_mma<T, W, false>>(keys, k);
    });
  });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
