// Scaled dot-product attention by tiles, backward: gq, by query; attention/attention_flash.cuh.
#include "warptape/kernels/attention/attention_flash.cuh"

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
    const bool seen = k_tile.load(s.k.at(b, h / s.shared), s.k.row, s.k.step, j0, s.keys, s.depth);
    v_tile.load(a.v.at(b, h / s.shared), a.v.row, a.v.step, j0, s.keys, a.width);
    const bool odd = __syncthreads_or(s.hides() && seen);
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
          const float keep = s.keep(b, h, i, j);
          if (p != 0) ds = p * ((keep == 0 ? 0 : keep * d[r]) - whole) * s.scale;
        }
        x[r] = ds;
      }
      share_over_lanes<L, kStep>(x);
      // Nothing is waited for. Without it the compiler keeps the vectors that the products read
      // for the sums, in more registers than there are.
      __syncwarp();
      add_step(sum, x, k_tile.v + t, odd);
    }
  }
  if (live) sum.store(a.gq.at(b, h, i), a.gq.step, s.depth, 1);
}

}  // namespace

void attention_flash_queries(const AttentionBackwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    with_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      const i64 blocks = ceil_div(k.s.queries, kAttentionThreads / kLanes<W>);
      launch<attention_queries_flash<T, W>>(
          grid_of(l, blocks * k.s.batches * k.s.heads, kAttentionThreads), k);
    });
  });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
