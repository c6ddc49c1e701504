// Scaled dot-product attention on tensor cores, backward: gq, by query.
#include "warptape/kernels/attention/attention_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, int W>
struct KeyStage {
  MmaVectors<T, kTile32, W> k, v;
};

// Blocks of a processor, as many as go without spills. Asked for none, nvcc holds what is the same
// for all tiles of a pipeline in so many registers that two are left, and spills.
template <int W>
constexpr int kQueryBlocks = W == 128 ? 2 : 3;

template <class T, int W, int Stages>
__global__ void __launch_bounds__(kAttentionThreads, kQueryBlocks<W>)
    attention_queries_mma(AttentionBackward<T> a) {
  using Stage = KeyStage<T, W>;
  WT_DYN_SHARED(Stage, stages);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kMmaRows - 1) / kMmaRows;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kMmaRows;
  const i64 h = head % s.heads, b = head / s.heads, g = h / s.shared;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const i64 row = first + 16 * warp + lane / 4;
  const i64 keys = s.keys_of(first + kMmaRows - 1);
  StageRing<Stages, Stage> ring{stages};
  const auto ask = [&](Stage& to, i64 j0) WT_INLINE_LAMBDA {
    constexpr bool kAsync = Stages > 1;
    if (kAsync && j0 >= keys) return;
    to.k.template load<kAsync>(s.k.at(b, g), s.k.row, s.k.step, j0, s.keys, s.depth);
    to.v.template load<kAsync>(a.v.at(b, g), a.v.row, a.v.step, j0, s.keys, a.width);
  };
  ring.begin(ask, i64(0));
  MmaOwn<T, W> q, gout;
  Stage& spare = ring.spare();
  take_own(q, spare.k, spare.v, s.q.at(b, h), s.q, first, s.queries, s.depth);
  __syncthreads();
  take_own(gout, spare.k, spare.v, a.gout.at(b, h), a.gout, first, s.queries, a.width);
  float lse[2], whole[2], sum[W / 8][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 i = row + 8 * half;
    lse[half] = i < s.queries ? a.lse[head * s.queries + i] : 0.0f;
    whole[half] = i < s.queries ? a.whole[head * s.queries + i] : 0.0f;
  }
#pragma unroll 1
  for (i64 j0 = 0; j0 < keys; j0 += kTile32) {
    Stage& tile = ring.next(ask, j0, j0 + kTile32);
    float x[kTile32 / 8][4] = {}, d[kTile32 / 8][4] = {};
    multiply_along<T, W>(x, q, tile.k);
    multiply_along<T, W>(d, gout, tile.v);
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
    multiply_across<T, W>(sum, x, tile.k);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (const i64 i = row + 8 * half; i < s.queries)
      store_row<T, W>(sum, half, a.gq.at(b, h, i), a.gq.step, s.depth, 1.0f);
}

template <int Stages>
void launch_queries(const AttentionBackwardArgs& a, const Launch& l) {
  with_half(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const i64 blocks = ceil_div(k.s.queries, kMmaRows) * k.s.batches * k.s.heads;
    with_mma_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch<attention_queries_mma<T, W, Stages>>(
          grid_of(l, blocks, kAttentionThreads, Stages * sizeof(KeyStage<T, W>)), k);
    });
  });
}

}  // namespace

void attention_mma_queries(const AttentionBackwardArgs& a, const Launch& l) {
  launch_queries<1>(a, l);
}
void attention_pipelined_queries(const AttentionBackwardArgs& a, const Launch& l) {
  launch_queries<2>(a, l);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
