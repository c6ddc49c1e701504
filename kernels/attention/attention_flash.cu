// Scaled dot-product attention by tiles, forward: attention/attention_flash.cuh.
#include "warptape/kernels/attention/attention_flash.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Three blocks a processor: aiming at four, nvcc spills.
template <class T, int W>
__global__ void __launch_bounds__(kAttentionThreads, 3) attention_flash(AttentionForward<T> a) {
  constexpr int L = kLanes<W>, kQueries = kAttentionThreads / L, kMine = kStep / L;
  WT_SHARED(VectorTile<W>, k_tile, );
  WT_SHARED(VectorTile<W>, v_tile, );
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kQueries - 1) / kQueries;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kQueries;
  const i64 h = head % s.heads, b = head / s.heads, i = first + threadIdx.x / L;
  const int lane = int(threadIdx.x) % L;
  const bool live = i < s.queries;
  // Without a query of its own a thread stays: it loads its part of the tiles.
  OwnVector<W, L> q, y;
  q.load(s.q.at(b, h, live ? i : 0), s.q.step, s.depth, live);
  y.clear();
  float most = -INFINITY, sum = 0;
  // Under `causal` the block ends with its last query's last key: half of the tiles are not read.
  const i64 keys = s.keys_of(first + kQueries - 1), own_keys = live ? s.keys_of(i) : 0;
  for (i64 j0 = 0; j0 < keys; j0 += kTile) {
    __syncthreads();  // everybody is done with the tiles before
    k_tile.load(s.k.at(b, h / s.shared), s.k.row, s.k.step, j0, s.keys, s.depth);
    const bool seen = v_tile.load(a.v.at(b, h / s.shared), a.v.row, a.v.step, j0, s.keys, a.width);
    const bool odd = __syncthreads_or(s.hides() && seen);
#pragma unroll 1
    for (int t = 0; t < kTile; t += kStep) {
      float p[kStep], largest = -INFINITY;
#pragma unroll
      for (int r = 0; r < kStep; ++r) p[r] = q.product(k_tile.v[t + r]);
      add_over_lanes<L, kStep>(p);
      const i64 mine = j0 + t + lane * kMine;
#pragma unroll
      for (int r = 0; r < kMine; ++r) {
        p[r] = mine + r < own_keys ? s.score(b, h, i, mine + r, p[r]) : -INFINITY;
        largest = larger(largest, p[r]);
      }
#pragma unroll
      for (int d = 1; d < L; d *= 2)
        largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, d));
      if (largest > most || largest != largest) {
        // What was added stands on the old maximum: one factor brings it onto the new one, once a
        // step at most.
        const float factor = expf(most - largest);
        sum *= factor;
        y.scale(factor);
        most = largest;
      }
      // Where no key was seen yet any base will do: exp(-inf) is 0.
      const float base = most == -INFINITY ? 0.0f : most;
#pragma unroll
      for (int r = 0; r < kMine; ++r) {
        p[r] = expf(p[r] - base);
        sum += p[r];
        if (s.threshold && mine + r < own_keys) p[r] *= s.keep(b, h, i, mine + r);
      }
      share_over_lanes<L, kStep>(p);
      add_step(y, p, v_tile.v + t, odd);
    }
  }
#pragma unroll
  for (int d = 1; d < L; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (!live) return;
  if (lane == 0) a.save(head * s.queries + i, most, sum);
  y.store(a.out.at(b, h, i), a.out.step, a.width, most == -INFINITY ? 0.0f : 1 / sum);
}

}  // namespace

void attention_flash_forward(const AttentionForwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = forward_of<T>(a);
    with_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      const i64 blocks = ceil_div(k.s.queries, kAttentionThreads / kLanes<W>);
      launch<attention_flash<T, W>>(grid_of(l, blocks * k.s.batches * k.s.heads, kAttentionThreads),
                                    k);
    });
  });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
