// Scaled dot-product attention on simt and cuda, backward; kernels/device/attention.cuh has the
// ladder. Three kernels in a row: by query (gq, and D for the others), by key for gv, by key for
// gk.
#include "warptape/kernels/attention.h"

#include "warptape/kernels/device/attention_mma.cuh"
#include "warptape/kernels/device/cudnn_functions.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive ---

constexpr int kChunk = 16;  // elements of a gradient at once

// Pair (i, j) from memory: p, and ds.
template <class T>
struct Pair {
  using A = ComputeType<T>;
  A p, keep, ds;
  __device__ __forceinline__ Pair(const AttentionBackward<T>& a, i64 b, i64 h, i64 i, i64 j,
                                  bool with_ds) {
    const Scores<T>& s = a.s;
    const i64 row = (b * s.heads + h) * s.queries + i, g = h / s.shared;
    const A x = product_of<A>(s.q.at(b, h, i), s.q.step, s.k.at(b, g, j), s.k.step, s.depth);
    p = exp(s.score(b, h, i, j, x) - a.lse[row]);
    keep = s.keep(b, h, i, j);
    ds = 0;
    if (!with_ds) return;
    const A d = product_of<A>(a.gout.at(b, h, i), a.gout.step, a.v.at(b, g, j), a.v.step, a.width);
    ds = p * (keep * d - a.whole[row]) * s.scale;
  }
};

template <class T>
__global__ void __launch_bounds__(kAttentionThreads) attention_whole(AttentionBackward<T> a) {
  using A = ComputeType<T>;
  const Scores<T>& s = a.s;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= s.batches * s.heads * s.queries) return;
  const i64 i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
  // sum_j p~(i, j) d(i, j) without a walk over the keys: it is gout times what they added up to.
  a.whole[row] =
      product_of<A>(a.gout.at(b, h, i), a.gout.step, a.out.at(b, h, i), a.out.step, a.width);
}

template <class T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_queries_naive(AttentionBackward<T> a) {
  using A = ComputeType<T>;
  const Scores<T>& s = a.s;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= s.batches * s.heads * s.queries) return;
  const i64 i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
  const T* k = s.k.at(b, h / s.shared);
  T* gq = a.gq.at(b, h, i);
  for (i64 e0 = 0; e0 < s.depth; e0 += kChunk) {
    A sum[kChunk] = {};
    for (i64 j = 0; j < s.keys_of(i); ++j) {
      const A ds = Pair<T>(a, b, h, i, j, true).ds;
#pragma unroll
      for (int e = 0; e < kChunk; ++e)
        if (e0 + e < s.depth) sum[e] += ds * A(k[j * s.k.row + (e0 + e) * s.k.step]);
    }
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      if (e0 + e < s.depth) gq[(e0 + e) * a.gq.step] = T(sum[e]);
  }
}

// A thread a key: gv, or gk.
template <class T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_keys_naive(AttentionBackward<T> a, bool of_values) {
  using A = ComputeType<T>;
  const Scores<T>& s = a.s;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= s.batches * s.groups * s.keys) return;
  const i64 j = row % s.keys, g = row / s.keys % s.groups, b = row / s.keys / s.groups;
  const HeadRows<const T>& from = of_values ? a.gout : s.q;
  const HeadRows<T>& to = of_values ? a.gv : a.gk;
  const i64 width = of_values ? a.width : s.depth;
  for (i64 e0 = 0; e0 < width; e0 += kChunk) {
    A sum[kChunk] = {};
    // Heads in order, queries in order: the order of the additions is that of the reference.
    for (i64 h = g * s.shared; h < (g + 1) * s.shared; ++h)
      for (i64 i = s.causal ? j : 0; i < s.queries; ++i) {
        const Pair<T> pair(a, b, h, i, j, !of_values);
        const A factor = of_values ? pair.keep * pair.p : pair.ds;
        const T* x = from.at(b, h, i);
#pragma unroll
        for (int e = 0; e < kChunk; ++e)
          if (e0 + e < width) sum[e] += factor * A(x[(e0 + e) * from.step]);
      }
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      if (e0 + e < width) to.at(b, g, j)[(e0 + e) * to.step] = T(sum[e]);
  }
}

// --- flash ---

template <class T, int W>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_queries_flash(AttentionBackward<T> a) {
  WT_SHARED(VectorTile<W>, k_tile, );
  WT_SHARED(VectorTile<W>, v_tile, );
  const Scores<T>& s = a.s;
  const i64 blocks = (s.queries + kAttentionThreads - 1) / kAttentionThreads;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kAttentionThreads;
  const i64 h = head % s.heads, b = head / s.heads, i = first + threadIdx.x;
  const bool live = i < s.queries;
  // 192 of a thread's 255 registers: the tiles' vectors are read from shared memory as they are
  // multiplied.
  OwnVector<W> q, g, sum;
  q.load(s.q.at(b, h, live ? i : 0), s.q.step, s.depth, live);
  g.load(a.gout.at(b, h, live ? i : 0), a.gout.step, a.width, live);
  sum.clear();
  const float lse = live ? a.lse[head * s.queries + i] : 0;
  const float whole = live ? a.whole[head * s.queries + i] : 0;
  const i64 keys = s.keys_of(first + kAttentionThreads - 1), own_keys = live ? s.keys_of(i) : 0;
  for (i64 j0 = 0; j0 < keys; j0 += kTile) {
    __syncthreads();
    k_tile.load(s.k.at(b, h / s.shared), s.k.row, s.k.step, j0, s.keys, s.depth);
    v_tile.load(a.v.at(b, h / s.shared), a.v.row, a.v.step, j0, s.keys, a.width);
    __syncthreads();
    for (int r = 0; r < kTile; ++r) {
      const i64 j = j0 + r;
      if (j >= own_keys) break;
      // p is made anew from lse, one exponential instead of a matrix in memory.
      const float p = expf(s.score(b, h, i, j, q.product(k_tile.v[r])) - lse);
      const float ds = p * (s.keep(b, h, i, j) * g.product(v_tile.v[r]) - whole) * s.scale;
      sum.add(ds, k_tile.v[r]);
    }
  }
  if (live) sum.store(a.gq.at(b, h, i), a.gq.step, s.depth, 1);
}

// A thread a key. OfValues: gv, which needs no values; else gk.
template <class T, int W, bool OfValues>
__global__ void __launch_bounds__(kAttentionThreads) attention_keys_flash(AttentionBackward<T> a) {
  WT_SHARED(VectorTile<W>, q_tile, );
  WT_SHARED(VectorTile<W>, g_tile, );
  WT_SHARED(float, lse_tile, [kTile]);
  WT_SHARED(float, whole_tile, [kTile]);
  const Scores<T>& s = a.s;
  const i64 blocks = (s.keys + kAttentionThreads - 1) / kAttentionThreads;
  const i64 head = i64(blockIdx.x) / blocks, first = i64(blockIdx.x) % blocks * kAttentionThreads;
  const i64 g = head % s.groups, b = head / s.groups, j = first + threadIdx.x;
  const bool live = j < s.keys;
  OwnVector<W> k, v, sum;
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
      if (!live) continue;
      for (int r = 0; r < kTile; ++r) {
        const i64 i = i0 + r;
        if (i >= s.queries) break;
        if (s.causal && j > i) continue;
        const float p = expf(s.score(b, h, i, j, k.product(q_tile.v[r])) - lse_tile[r]);
        const float keep = s.keep(b, h, i, j);
        if constexpr (OfValues) {
          sum.add(keep * p, g_tile.v[r]);
        } else {
          const float d = v.product(g_tile.v[r]);
          sum.add(p * (keep * d - whole_tile[r]) * s.scale, q_tile.v[r]);
        }
      }
    }
  if (!live) return;
  if constexpr (OfValues)
    sum.store(a.gv.at(b, g, j), a.gv.step, a.width, 1);
  else
    sum.store(a.gk.at(b, g, j), a.gk.step, s.depth, 1);
}

// --- launch ---

i64 workspace(const AttentionBackwardArgs& a) {
  const View& q = a.scores.q;
  return q.size(0) * q.size(1) * q.size(2) * item_size(a.lse.dtype());
}

Config a_thread_each(const Launch& l, i64 rows) {
  return grid_of(l, ceil_div(rows, kAttentionThreads), kAttentionThreads);
}

void launch_naive(const AttentionBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const i64 rows = k.s.batches * k.s.heads * k.s.queries;
    const i64 keys = k.s.batches * k.s.groups * k.s.keys;
    launch<attention_whole<T>>(a_thread_each(l, rows), k);
    launch<attention_queries_naive<T>>(a_thread_each(l, rows), k);
    launch<attention_keys_naive<T>>(a_thread_each(l, keys), k, true);
    launch<attention_keys_naive<T>>(a_thread_each(l, keys), k, false);
  });
}
void launch_mma(const AttentionBackwardArgs& a, const Launch& l) {
  with_half(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    launch<attention_whole<T>>(a_thread_each(l, k.s.batches * k.s.heads * k.s.queries), k);
  });
  attention_mma_backward(a, l);
}
void launch_flash(const AttentionBackwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    const i64 heads = k.s.batches * k.s.heads, groups = k.s.batches * k.s.groups;
    const i64 query_blocks = ceil_div(k.s.queries, kAttentionThreads) * heads;
    const i64 key_blocks = ceil_div(k.s.keys, kAttentionThreads) * groups;
    launch<attention_whole<T>>(a_thread_each(l, heads * k.s.queries), k);
    with_width(a.scores, a.v, [&](auto width) {
      constexpr int W = decltype(width)::value;
      launch<attention_queries_flash<T, W>>(grid_of(l, query_blocks, kAttentionThreads), k);
      launch<attention_keys_flash<T, W, true>>(grid_of(l, key_blocks, kAttentionThreads), k);
      launch<attention_keys_flash<T, W, false>>(grid_of(l, key_blocks, kAttentionThreads), k);
    });
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, attention_backward, AttentionBackwardArgs,
    {.name = "tensor_core",
     .rank = 30,
     .why_not = [](const AttentionBackwardArgs& a) { return why_not_attention_mma(a.scores, a.v); },
     .why_not_on = [](const AttentionBackwardArgs&,
                      const DeviceLimits& d) { return why_not_attention_mma_on(d); },
     .workspace = workspace,
     .launch = launch_mma},
    {.name = "flash",
     .rank = 20,
     .why_not = [](const AttentionBackwardArgs& a) { return why_not_flash(a.scores, a.v); },
     .workspace = workspace,
     .launch = launch_flash},
    {.name = "naive", .rank = 10, .workspace = workspace, .launch = launch_naive}
#if defined(__CUDACC__)  // last: see conv.cu
    ,
    {.name = "cudnn",
     .rank = 5,
     .why_not = attention_backward_cudnn_why_not,
     .workspace = attention_backward_cudnn_workspace,
     .launch = attention_backward_cudnn}
#endif
);

}  // namespace wt
