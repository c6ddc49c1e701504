// Scaled dot-product attention on simt and cuda, backward; kernels/attention/attention.cuh has the
// ladder. Three kernels in a row: by query (gq, and D for the others), by key for gv, by key for
// gk.
#include "warptape/kernels/attention.h"

#include "warptape/kernels/attention/attention_flash.cuh"
#include "warptape/kernels/attention/attention_mma.cuh"
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
    if (p != 0) ds = p * ((keep == 0 ? A(0) : keep * d) - a.whole[row]) * s.scale;
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
        if (ds != 0 && e0 + e < s.depth) sum[e] += ds * A(k[j * s.k.row + (e0 + e) * s.k.step]);
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
          if (factor != 0 && e0 + e < width) sum[e] += factor * A(x[(e0 + e) * from.step]);
      }
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      if (e0 + e < width) to.at(b, g, j)[(e0 + e) * to.step] = T(sum[e]);
  }
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
// D, then the rung's own kernels.
template <auto Queries, auto Keys>
void launch_with_whole(const AttentionBackwardArgs& a, const Launch& l) {
  with_float(a.scores.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = backward_of<T>(a, l);
    launch<attention_whole<T>>(a_thread_each(l, k.s.batches * k.s.heads * k.s.queries), k);
  });
  Queries(a, l);
  Keys(a, l);
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
     .launch = launch_with_whole<attention_mma_queries, attention_mma_keys>},
    // Below tensor_core until a device's `wt tune` has timed it.
    {.name = "pipelined",
     .rank = 25,
     .why_not =
         [](const AttentionBackwardArgs& a) {
           return why_not_attention_pipelined(a.scores, a.v, a.scores.q, a.scores.k, a.v, a.gout);
         },
     .why_not_on = [](const AttentionBackwardArgs&,
                      const DeviceLimits& d) { return why_not_attention_mma_on(d); },
     .workspace = workspace,
     .launch = launch_with_whole<attention_pipelined_queries, attention_pipelined_keys>},
    {.name = "flash",
     .rank = 20,
     .why_not = [](const AttentionBackwardArgs& a) { return why_not_flash(a.scores, a.v); },
     .workspace = workspace,
     .launch = launch_with_whole<attention_flash_queries, attention_flash_keys>},
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
