// Scaled dot-product attention on simt and cuda, forward; kernels/device/attention.cuh has the
// ladder.
#include "warptape/kernels/attention.h"

#include "warptape/kernels/device/attention_mma.cuh"
#include "warptape/kernels/device/cudnn_functions.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive ---

constexpr int kChunk = 16;  // elements of an output at once

template <class T>
__global__ void __launch_bounds__(kAttentionThreads) attention_naive(AttentionForward<T> a) {
  using A = ComputeType<T>;
  const Scores<T>& s = a.s;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= s.batches * s.heads * s.queries) return;
  const i64 i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
  const T *q = s.q.at(b, h, i), *k = s.k.at(b, h / s.shared), *v = a.v.at(b, h / s.shared);
  const auto score = [&](i64 j) WT_INLINE_LAMBDA {
    return s.score(b, h, i, j, product_of<A>(q, s.q.step, k + j * s.k.row, s.k.step, s.depth));
  };
  const i64 keys = s.keys_of(i);
  A most = -A(INFINITY), sum = 0;
  for (i64 j = 0; j < keys; ++j) {
    const A x = score(j);
    if (x > most || x != x) {
      sum *= exp(most - x);
      most = x;
    }
    if (most != -A(INFINITY)) sum += exp(x - most);
  }
  a.save(row, most, sum);
  T* out = a.out.at(b, h, i);
  // There are no registers for an output of any width, and a row of scores in memory is what this
  // kernel is there to avoid: each score is made anew for every 16 elements.
  for (i64 e0 = 0; e0 < a.width; e0 += kChunk) {
    A y[kChunk] = {};
    if (most != -A(INFINITY))
      for (i64 j = 0; j < keys; ++j) {
        const A p = exp(score(j) - most) * s.keep(b, h, i, j);
#pragma unroll
        for (int e = 0; e < kChunk; ++e)
          if (e0 + e < a.width) y[e] += p * A(v[j * a.v.row + (e0 + e) * a.v.step]);
      }
    const A factor = most == -A(INFINITY) ? A(0) : 1 / sum;
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      if (e0 + e < a.width) out[(e0 + e) * a.out.step] = T(y[e] * factor);
  }
}

// --- flash ---

template <class T, int W>
__global__ void __launch_bounds__(kAttentionThreads) attention_flash(AttentionForward<T> a) {
  WT_SHARED(VectorTile<W>, k_tile, );
  WT_SHARED(VectorTile<W>, v_tile, );
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kAttentionThreads - 1) / kAttentionThreads;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kAttentionThreads;
  const i64 h = head % s.heads, b = head / s.heads, i = first + threadIdx.x;
  const bool live = i < s.queries;
  // Without a query of its own a thread stays: it loads its part of the tiles.
  OwnVector<W> q, y;
  q.load(s.q.at(b, h, live ? i : 0), s.q.step, s.depth, live);
  y.clear();
  float most = -INFINITY, sum = 0;
  // Under `causal` the block ends with its last query's last key: half of the tiles are not read.
  const i64 keys = s.keys_of(first + kAttentionThreads - 1), own_keys = live ? s.keys_of(i) : 0;
  for (i64 j0 = 0; j0 < keys; j0 += kTile) {
    __syncthreads();  // everybody is done with the tiles before
    k_tile.load(s.k.at(b, h / s.shared), s.k.row, s.k.step, j0, s.keys, s.depth);
    v_tile.load(a.v.at(b, h / s.shared), a.v.row, a.v.step, j0, s.keys, a.width);
    __syncthreads();
    // All threads read the same vector at a time: one address a warp, which shared memory hands to
    // all of its lanes at once.
    float p[kTile], largest = -INFINITY;
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      p[r] = -INFINITY;
      if (j0 + r < own_keys) p[r] = s.score(b, h, i, j0 + r, q.product(k_tile.v[r]));
      if (p[r] > largest || p[r] != p[r]) largest = p[r];
    }
    if (largest > most || largest != largest) {
      // What was added stands on the old maximum: one factor brings it onto the new one, once a
      // tile at most.
      const float factor = expf(most - largest);
      sum *= factor;
#pragma unroll
      for (int e = 0; e < W; ++e) y.v[e] *= factor;
      most = largest;
    }
    if (most == -INFINITY) continue;  // nothing is seen yet; the barriers are at the loop's head
#pragma unroll
    for (int r = 0; r < kTile; ++r) {
      p[r] = expf(p[r] - most);
      sum += p[r];
      if (s.threshold && j0 + r < own_keys) p[r] *= s.keep(b, h, i, j0 + r);
      y.add(p[r], v_tile.v[r]);
    }
  }
  if (!live) return;
  a.save(head * s.queries + i, most, sum);
  y.store(a.out.at(b, h, i), a.out.step, a.width, most == -INFINITY ? 0.0f : 1 / sum);
}

// --- launch ---

void launch_naive(const AttentionForwardArgs& a, const Launch& l) {
  with_float_or_double(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = forward_of<T>(a);
    const i64 rows = k.s.batches * k.s.heads * k.s.queries;
    launch<attention_naive<T>>(grid_of(l, ceil_div(rows, kAttentionThreads), kAttentionThreads), k);
  });
}
void launch_flash(const AttentionForwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = forward_of<T>(a);
    const i64 blocks = ceil_div(k.s.queries, kAttentionThreads) * k.s.batches * k.s.heads;
    with_width(a.scores, a.v, [&](auto width) {
      launch<attention_flash<T, decltype(width)::value>>(grid_of(l, blocks, kAttentionThreads), k);
    });
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, attention_forward, AttentionForwardArgs,
            {.name = "tensor_core",
             .rank = 30,
             .why_not =
                 [](const AttentionForwardArgs& a) { return why_not_attention_mma(a.scores, a.v); },
             .why_not_on = [](const AttentionForwardArgs&,
                              const DeviceLimits& d) { return why_not_attention_mma_on(d); },
             .launch = attention_mma_forward},
            {.name = "flash",
             .rank = 20,
             .why_not = [](const AttentionForwardArgs& a) { return why_not_flash(a.scores, a.v); },
             .launch = launch_flash},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)  // last: see conv.cu
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = attention_forward_cudnn_why_not,
             .launch = attention_forward_cudnn}
#endif
);

}  // namespace wt
