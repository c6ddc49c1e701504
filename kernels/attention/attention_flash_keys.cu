// Scaled dot-product attention by tiles, backward: gv and gk, by key;
// attention/attention_flash.cuh.
#include "warptape/kernels/attention/attention_flash.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// OfValues: gv, which needs no values; else gk.
// Blocks a processor: of so many nvcc does not spill.
template <class T, int W, bool OfValues>
__global__ void __launch_bounds__(kAttentionThreads, OfValues ? 3 : 2)
    attention_keys_flash(AttentionBackward<T> a) {
  constexpr int L = kLanes<W>, kKeys = kAttentionThreads / L, kMine = kStep / L;
  WT_SHARED(VectorTile<W>, q_tile, );
  WT_SHARED(VectorTile<W>, g_tile, );
  WT_SHARED(float, lse_tile, [kTile]);
  WT_SHARED(float, whole_tile, [kTile]);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.keys + kKeys - 1) / kKeys;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kKeys;
  const i64 g = head % s.groups, b = head / s.groups, j = first + threadIdx.x / L;
  const bool live = j < s.keys;
  OwnVector<W, L> k, v, sum;
  k.load(s.k.at(b, g, live ? j : 0), s.k.step, s.depth, live);
  if constexpr (!OfValues) v.load(a.v.at(b, g, live ? j : 0), a.v.step, a.width, live);
  sum.clear();
  for (i64 h = g * s.shared; h < (g + 1) * s.shared; ++h)
    // Under `causal` no query before the block's first key sees any of its keys.
    for (i64 i0 = s.causal ? first / kTile * kTile : 0; i0 < s.queries; i0 += kTile) {
      __syncthreads();
      const bool q_seen = q_tile.load(s.q.at(b, h), s.q.row, s.q.step, i0, s.queries, s.depth);
      const bool g_seen =
          g_tile.load(a.gout.at(b, h), a.gout.row, a.gout.step, i0, s.queries, a.width);
      if (threadIdx.x < kTile && i0 + threadIdx.x < s.queries) {
        const i64 row = (b * s.heads + h) * s.queries + i0 + threadIdx.x;
        lse_tile[threadIdx.x] = a.lse[row];
        whole_tile[threadIdx.x] = a.whole[row];
      }
      const bool odd = __syncthreads_or(s.hides() && (OfValues ? g_seen : q_seen));
#pragma unroll 1
      for (int t = 0; t < kTile; t += kStep) {
        float x[kStep], d[kStep];
#pragma unroll
        for (int r = 0; r < kStep; ++r) {
          x[r] = k.product(q_tile.v[t + r]);
          if constexpr (!OfValues) d[r] = v.product(g_tile.v[t + r]);
        }
        add_over_lanes<L, kStep>(x);
        if constexpr (!OfValues) add_over_lanes<L, kStep>(d);
#pragma unroll
        for (int r = 0; r < kMine; ++r) {
          const int at = t + int(threadIdx.x) % L * kMine + r;
          const i64 i = i0 + at;
          float factor = 0;
          if (live && i < s.queries && !(s.causal && j > i)) {
            const float p = expf(s.score(b, h, i, j, x[r]) - lse_tile[at]);
            const float keep = s.keep(b, h, i, j);
            if constexpr (OfValues)
              factor = keep * p;
            else if (p != 0)
              factor = p * ((keep == 0 ? 0 : keep * d[r]) - whole_tile[at]) * s.scale;
          }
          x[r] = factor;
        }
        share_over_lanes<L, kStep>(x);
        __syncwarp();  // see attention_flash_queries.cu
        add_step(sum, x, (OfValues ? g_tile.v : q_tile.v) + t, odd);
      }
    }
  if (!live) return;
  if constexpr (OfValues)
    sum.store(a.gv.at(b, g, j), a.gv.step, a.width, 1);
  else
    sum.store(a.gk.at(b, g, j), a.gk.step, s.depth, 1);
}

}  // namespace

void attention_flash_keys(const AttentionBackwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    with_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      const i64 blocks = ceil_div(k.s.keys, kAttentionThreads / kLanes<W>);
      const Config grid = grid_of(l, blocks * k.s.batches * k.s.groups, kAttentionThreads);
      launch<attention_keys_flash<T, W, true>>(grid, k);
      launch<attention_keys_flash<T, W, false>>(grid, k);
    });
  });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
