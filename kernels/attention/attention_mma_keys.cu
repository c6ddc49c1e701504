// Scaled dot-product attention on tensor cores, backward: by key, a kernel for gv and one for gk,
// which together would need more registers than a thread has.
#include "warptape/kernels/attention/attention_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, int W>
struct QueryStage {
  MmaVectors<T, kTile32, W> q, g;
  float lse[kTile32], whole[kTile32];

  // Of row `at` of [B, H, L] and the ones after it, `left` of them.
  template <bool Async>
  __device__ __forceinline__ void load_numbers(const AttentionBackward<T>& a, i64 at, i64 left) {
    const int t = int(threadIdx.x);
    if (t >= kTile32) return;
    if constexpr (Async) {
      cp_async<4>(&lse[t], a.lse + at + t, t < left ? 4 : 0);
      cp_async<4>(&whole[t], a.whole + at + t, t < left ? 4 : 0);
    } else if (t < left) {
      lse[t] = a.lse[at + t];
      whole[t] = a.whole[at + t];
    }
  }
};

// As many as go without spills; see attention_mma_queries.cu.
template <int W, bool OfValues>
constexpr int kKeyBlocks = W == 128 ? 2 : (W == 64 ? 3 : 4) + OfValues;

// OfValues: gv, which needs no values; else gk.
template <class T, int W, bool OfValues, int Stages>
__global__ void __launch_bounds__(kAttentionThreads, kKeyBlocks<W, OfValues>)
    attention_keys_mma(AttentionBackward<T> a) {
  using Stage = QueryStage<T, W>;
  WT_DYN_SHARED(Stage, stages);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.keys + kMmaRows - 1) / kMmaRows;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kMmaRows;
  const i64 g = head % s.groups, b = head / s.groups;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const i64 row = first + 16 * warp + lane / 4;
  // Under `causal` no query before the block's first key sees any of its keys.
  const i64 begin = s.causal ? first / kTile32 * kTile32 : 0, last_head = (g + 1) * s.shared;
  StageRing<Stages, Stage> ring{stages};
  struct Place {
    i64 h, i0;
  };
  const auto ask = [&](Stage& to, const Place& at) WT_INLINE_LAMBDA {
    constexpr bool kAsync = Stages > 1;
    const i64 h = at.h, i0 = at.i0;
    if (kAsync && (h >= last_head || i0 >= s.queries)) return;
    to.q.template load<kAsync>(s.q.at(b, h), s.q.row, s.q.step, i0, s.queries, s.depth);
    to.g.template load<kAsync>(a.gout.at(b, h), a.gout.row, a.gout.step, i0, s.queries, a.width);
    to.template load_numbers<kAsync>(a, (b * s.heads + h) * s.queries + i0, s.queries - i0);
  };
  ring.begin(ask, Place{g * s.shared, begin});
  MmaOwn<T, W> k, v;
  Stage& spare = ring.spare();
  take_own(k, spare.q, spare.g, s.k.at(b, g), s.k, first, s.keys, s.depth);
  if constexpr (!OfValues) {
    __syncthreads();
    take_own(v, spare.q, spare.g, a.v.at(b, g), a.v, first, s.keys, a.width);
  }
  float sum[W / 8][4] = {};
  for (i64 h = g * s.shared; h < last_head; ++h)
#pragma unroll 1
    for (i64 i0 = begin; i0 < s.queries; i0 += kTile32) {
      const bool last = i0 + kTile32 >= s.queries;  // of this head
      Stage& tile =
          ring.next(ask, Place{h, i0}, last ? Place{h + 1, begin} : Place{h, i0 + kTile32});
      // Keys are rows here and queries columns: the scores' other half.
      float x[kTile32 / 8][4] = {}, d[kTile32 / 8][4] = {};
      multiply_along<T, W>(x, k, tile.q);
      if constexpr (!OfValues) multiply_along<T, W>(d, v, tile.g);
#pragma unroll
      for (int n = 0; n < kTile32 / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int column = 8 * n + lane % 4 * 2 + c % 2;
          const i64 i = i0 + column, j = row + c / 2 * 8;
          float value = 0;
          if (i < s.queries && j < s.keys) {
            const float p = expf(s.score(b, h, i, j, x[n][c]) - tile.lse[column]);
            const float keep = s.keep(b, h, i, j);
            value = OfValues ? keep * p : p * (keep * d[n][c] - tile.whole[column]) * s.scale;
          }
          x[n][c] = value;
        }
      if constexpr (OfValues)
        multiply_across<T, W>(sum, x, tile.g);
      else
        multiply_across<T, W>(sum, x, tile.q);
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

template <int Stages>
void launch_keys(const AttentionBackwardArgs& a, const Launch& l) {
  with_half(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const i64 blocks = ceil_div(k.s.keys, kMmaRows) * k.s.batches * k.s.groups;
    with_mma_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      const Config grid = grid_of(l, blocks, kAttentionThreads, Stages * sizeof(QueryStage<T, W>));
      launch<attention_keys_mma<T, W, true, Stages>>(grid, k);
      launch<attention_keys_mma<T, W, false, Stages>>(grid, k);
    });
  });
}

}  // namespace

void attention_mma_keys(const AttentionBackwardArgs& a, const Launch& l) { launch_keys<1>(a, l); }
void attention_pipelined_keys(const AttentionBackwardArgs& a, const Launch& l) {
  launch_keys<2>(a, l);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
