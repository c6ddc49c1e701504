// Scaled dot-product attention by tiles, backward: a kernel by query for gq, and by key one for gv
// and one for gk; device/attention_flash.cuh.
#include "warptape/kernels/device/attention_flash.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Three blocks a processor, where nvcc does not spill for it.
template <class T, int W>
__global__ void __launch_bounds__(kAttentionThreads, W == 32 ? 3 : 2)
    attention_queries_flash(AttentionBackward<T> a) {
  constexpr int L = kLanes<W>, kQueries = kAttentionThreads / L, kMine = kStep / L;
  WT_SHARED(VectorTile<W>, k_tile, );
  WT_SHARED(VectorTile<W>, v_tile, );
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kQueries - 1) / kQueries;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kQueries;
  const i64 h = head % s.heads, b = head / s.heads, i = first + threadIdx.x / L;
  const bool live = i < s.queries;
  OwnVector<W, L> q, g, sum;
  q.load(s.q.at(b, h, live ? i : 0), s.q.step, s.depth, live);
  g.load(a.gout.at(b, h, live ? i : 0), a.gout.step, a.width, live);
  sum.clear();
  const float lse = live ? a.lse[head * s.queries + i] : 0;
  const float whole = live ? a.whole[head * s.queries + i] : 0;
  const i64 keys = s.keys_of(first + kQueries - 1), own_keys = live ? s.keys_of(i) : 0;
  for (i64 j0 = 0; j0 < keys; j0 += kTile) {
    __syncthreads();
    k_tile.load(s.k.at(b, h / s.shared), s.k.row, s.k.step, j0, s.keys, s.depth);
    v_tile.load(a.v.at(b, h / s.shared), a.v.row, a.v.step, j0, s.keys, a.width);
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < kTile; t += kStep) {
      float x[kStep], d[kStep];
#pragma unroll
      for (int r = 0; r < kStep; ++r) {
        x[r] = q.product(k_tile.v[t + r]);
        d[r] = g.product(v_tile.v[t + r]);
      }
      add_over_lanes<L, kStep>(x);
      add_over_lanes<L, kStep>(d);
#pragma unroll
      for (int r = 0; r < kMine; ++r) {
        const i64 j = j0 + t + int(threadIdx.x) % L * kMine + r;
        float ds = 0;
        if (j < own_keys) {
          // p is made anew from lse, one exponential instead of a matrix in memory.
          const float p = expf(s.score(b, h, i, j, x[r]) - lse);
          ds = p * (s.keep(b, h, i, j) * d[r] - whole) * s.scale;
        }
        x[r] = ds;
      }
      share_over_lanes<L, kStep>(x);
      // Nothing is waited for. Without it the compiler keeps the vectors that the products read
      // for the sums, in more registers than there are.
      __syncwarp();
#pragma unroll
      for (int r = 0; r < kStep; ++r) sum.add(x[r], k_tile.v[t + r]);
    }
  }
  if (live) sum.store(a.gq.at(b, h, i), a.gq.step, s.depth, 1);
}

// OfValues: gv, which needs no values; else gk.
template <class T, int W, bool OfValues>
__global__ void __launch_bounds__(kAttentionThreads) attention_keys_flash(AttentionBackward<T> a) {
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
      q_tile.load(s.q.at(b, h), s.q.row, s.q.step, i0, s.queries, s.depth);
      g_tile.load(a.gout.at(b, h), a.gout.row, a.gout.step, i0, s.queries, a.width);
      if (threadIdx.x < kTile && i0 + threadIdx.x < s.queries) {
        const i64 row = (b * s.heads + h) * s.queries + i0 + threadIdx.x;
        lse_tile[threadIdx.x] = a.lse[row];
        whole_tile[threadIdx.x] = a.whole[row];
      }
      __syncthreads();
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
            else
              factor = p * (keep * d[r] - whole_tile[at]) * s.scale;
          }
          x[r] = factor;
        }
        share_over_lanes<L, kStep>(x);
        __syncwarp();  // as above
#pragma unroll
        for (int r = 0; r < kStep; ++r) sum.add(x[r], OfValues ? g_tile.v[t + r] : q_tile.v[t + r]);
      }
    }
  if (!live) return;
  if constexpr (OfValues)
    sum.store(a.gv.at(b, g, j), a.gv.step, a.width, 1);
  else
    sum.store(a.gk.at(b, g, j), a.gk.step, s.depth, 1);
}

}  // namespace

void attention_flash_backward(const AttentionBackwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const i64 heads = k.s.batches * k.s.heads, groups = k.s.batches * k.s.groups;
    with_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value, kEach = kAttentionThreads / kLanes<W>;
      const Config queries = grid_of(l, ceil_div(k.s.queries, kEach) * heads, kAttentionThreads);
      const Config keys = grid_of(l, ceil_div(k.s.keys, kEach) * groups, kAttentionThreads);
      launch<attention_queries_flash<T, W>>(queries, k);
      launch<attention_keys_flash<T, W, true>>(keys, k);
      launch<attention_keys_flash<T, W, false>>(keys, k);
    });
  });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
