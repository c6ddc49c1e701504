// Scaled dot-product attention on simt and cuda, forward; kernels/attention/attention.cuh has the
// ladder.
#include "warptape/kernels/attention.h"

#include "warptape/kernels/attention/attention_flash.cuh"
#include "warptape/kernels/attention/attention_mma.cuh"
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
          if (p != 0 && e0 + e < a.width) y[e] += p * A(v[j * a.v.row + (e0 + e) * a.v.step]);
      }
    const A factor = most == -A(INFINITY) ? A(0) : 1 / sum;
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      if (e0 + e < a.width) out[(e0 + e) * a.out.step] = T(y[e] * factor);
  }
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
            // Below tensor_core until a device's `wt tune` has timed it.
            {.name = "pipelined",
             .rank = 25,
             .why_not =
                 [](const AttentionForwardArgs& a) {
                   return why_not_attention_pipelined(a.scores, a.v, a.scores.k, a.v);
                 },
             .why_not_on = [](const AttentionForwardArgs&,
                              const DeviceLimits& d) { return why_not_attention_mma_on(d); },
             .launch = attention_pipelined_forward},
            {.name = "flash",
             .rank = 20,
             .why_not = [](const AttentionForwardArgs& a) { return why_not_flash(a.scores, a.v); },
             .launch = attention_flash_forward},
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
