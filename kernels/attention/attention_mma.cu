// Scaled dot-product attention on tensor cores, forward. A block makes 64 queries, 16 a warp, and
// walks over the keys by 64.
#include "warptape/kernels/attention/attention_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kKeys = 64;  // of a tile

// The four lanes that share a row of scores.
template <class F>
__device__ __forceinline__ float over_row(float x, F&& join) {
  x = join(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return join(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

template <class T, int W>
struct KeyStage {
  MmaVectors<T, kKeys, W> k, v;
};

// Two blocks a processor leave a thread 255 registers: aiming at three, nvcc spills.
template <class T, int W, int Stages>
__global__ void __launch_bounds__(kAttentionThreads, 2) attention_mma(AttentionForward<T> a) {
  using Stage = KeyStage<T, W>;
  WT_DYN_SHARED(Stage, stages);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kMmaRows - 1) / kMmaRows;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kMmaRows;
  const i64 h = head % s.heads, b = head / s.heads, g = h / s.shared;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const i64 own = first + 16 * warp, row = own + lane / 4;  // this thread's: row and row + 8
  // Under `causal` the block ends with its last query's last key: half of the tiles are not read.
  const i64 keys = s.keys_of(first + kMmaRows - 1);
  StageRing<Stages, Stage> ring{stages};
  const auto ask = [&](Stage& to, i64 j0) WT_INLINE_LAMBDA {
    constexpr bool kAsync = Stages > 1;
    if (j0 >= keys) return;
    to.k.template load<kAsync>(s.k.at(b, g), s.k.row, s.k.step, j0, s.keys, s.depth);
    to.v.template load<kAsync>(a.v.at(b, g), a.v.row, a.v.step, j0, s.keys, a.width);
  };
  ring.begin(ask, i64(0));
  MmaOwn<T, W> q;
  ring.spare().k.load(s.q.at(b, h), s.q.row, s.q.step, first, s.queries, s.depth);
  __syncthreads();
  q.take(ring.spare().k, 16 * warp);
  float y[W / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
#pragma unroll 1
  for (i64 j0 = 0; j0 < keys; j0 += kKeys) {
    Stage& tile = ring.next(ask, j0, j0 + kKeys);
    float x[kKeys / 8][4] = {};
    multiply_along<T, W>(x, q, tile.k);
    // Most tiles lie below the diagonal and within the keys: nothing is asked an element there.
    const bool open = !s.mask && j0 + kKeys <= s.keys && (!s.causal || j0 + kKeys <= own + 1);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const i64 i = row + c / 2 * 8, j = j0 + 8 * n + lane % 4 * 2 + c % 2;
        if (open)
          x[n][c] *= s.scale;
        else
          x[n][c] = i < s.queries && j < s.keys ? s.score(b, h, i, j, x[n][c]) : -INFINITY;
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = most[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
        largest = larger(larger(largest, x[n][2 * half]), x[n][2 * half + 1]);
      largest = over_row(largest, larger);
      // What was added stands on the old maximum: one factor a tile brings it onto the new one.
      // Where no key was seen yet any base will do: exp(-inf) is 0.
      const float base = largest == -INFINITY ? 0.0f : largest;
      const float factor = expf(most[half] - base);
      most[half] = largest;
      sum[half] *= factor;
#pragma unroll
      for (int n = 0; n < W / 8; ++n) y[n][2 * half] *= factor, y[n][2 * half + 1] *= factor;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 2 * half; c < 2 * half + 2; ++c) {
          const float p = expf(x[n][c] - base);
          sum[half] += p;
          x[n][c] = p;
          const i64 i = row + 8 * half, j = j0 + 8 * n + lane % 4 * 2 + c % 2;
          if (s.threshold && i < s.queries && j < s.keys) x[n][c] *= s.keep(b, h, i, j);
        }
    }
    multiply_across<T, W>(y, x, tile.v);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Every lane has added its own keys: the four of a row together have all.
    const float whole =
        over_row(sum[half], [](float p, float q) WT_INLINE_LAMBDA { return p + q; });
    const i64 i = row + 8 * half;
    if (i >= s.queries) continue;
    if (lane % 4 == 0) a.save(head * s.queries + i, most[half], whole);
    store_row<T, W>(y, half, a.out.at(b, h, i), a.out.step, a.width,
                    most[half] == -INFINITY ? 0.0f : 1 / whole);
  }
}

template <int Stages>
void launch_mma(const AttentionForwardArgs& a, const Launch& l) {
  with_half(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = forward_of<T>(a);
    const i64 blocks = ceil_div(k.s.queries, kMmaRows) * k.s.batches * k.s.heads;
    with_mma_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch<attention_mma<T, W, Stages>>(
          grid_of(l, blocks, kAttentionThreads, Stages * sizeof(KeyStage<T, W>)), k);
    });
  });
}

}  // namespace

void attention_mma_forward(const AttentionForwardArgs& a, const Launch& l) { launch_mma<1>(a, l); }
void attention_pipelined_forward(const AttentionForwardArgs& a, const Launch& l) {
  launch_mma<2>(a, l);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
