// What the kernels of attention share. The ladder of both directions:
//   naive  one thread a query (or a key), elements from memory as they are needed
//   flash  a query's (or key's) vectors stay in the registers of one to eight lanes; keys and
//   values
//          (or queries and gradients) come by tiles through shared memory (Dao et al. 2022;
//          attention/attention_flash.cuh)
//   tensor_core  a warp 16 queries (or keys), both products of a tile by mma.m16n8k16
//          (attention/attention_mma.cuh)
//   pipelined  the same, the next tile under way while one is multiplied
#pragma once
#include "warptape/kernels/attention.h"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/dropout.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kAttentionThreads = 128;

// [batch, head, row, element] of one operand.
template <class T>
struct HeadRows {
  T* data;
  i64 batch, head, row, step;
  explicit HeadRows(const View& v)
      : data(v.as<T>()),
        batch(v.stride(0)),
        head(v.stride(1)),
        row(v.stride(2)),
        step(v.stride(3)) {}
  __device__ __forceinline__ T* at(i64 b, i64 h, i64 i = 0) const {
    return data + b * batch + h * head + i * row;
  }
};

template <class T>
struct Scores {
  using A = ComputeType<T>;
  HeadRows<const T> q, k;
  const void* mask;
  i64 mask_stride[4];
  // groups: heads of k and v; shared: heads of q that share one of them, none where q has no heads.
  i64 batches, heads, groups, shared, queries, keys;
  int depth;
  A scale, keep_scale;
  bool mask_is_bool, causal;
  u32 threshold;
  PhiloxKey key;
  u64 call;
  const i64* call_base;

  explicit Scores(const AttentionScores& s)
      : q(s.q),
        k(s.k),
        mask(s.mask ? s.mask.data : nullptr),
        mask_stride{},
        batches(s.q.size(0)),
        heads(s.q.size(1)),
        groups(s.k.size(1)),
        shared(groups ? heads / groups : 0),
        queries(s.q.size(2)),
        keys(s.k.size(2)),
        depth(int(s.q.size(3))),
        scale(A(s.scale)),
        keep_scale(A(s.keep_scale)),
        mask_is_bool(s.mask && s.mask.dtype() == DType::boolean),
        causal(s.causal),
        threshold(s.threshold),
        key(s.key),
        call(s.call),
        call_base(s.call_base) {
    for (int d = 0; s.mask && d < 4; ++d) mask_stride[d] = s.mask.stride(d);
  }
  template <class F>
  void visit_pointers(F&& f) const {
    f(q.data), f(k.data), f(mask), f(call_base);
  }

  // The score of a pair, from its product; -inf where the query must not see the key.
  __device__ __forceinline__ A score(i64 b, i64 h, i64 i, i64 j, A product) const {
    if (causal && j > i) return -A(INFINITY);
    const A s = product * scale;
    if (!mask) return s;
    const i64 at =
        b * mask_stride[0] + h * mask_stride[1] + i * mask_stride[2] + j * mask_stride[3];
    if (mask_is_bool) return static_cast<const bool*>(mask)[at] ? s : -A(INFINITY);
    const A m = A(static_cast<const T*>(mask)[at]);
    return m == -A(INFINITY) ? m : s + m;  // of a NaN, too: it is not seen
  }
  // What dropout makes of p(i, j).
  __device__ __forceinline__ A keep(i64 b, i64 h, i64 i, i64 j) const {
    if (!threshold) return A(1);
    // The place among all pairs decides, so that forward, backward and every variant agree without
    // a mask in memory.
    const u64 e = u64(((b * heads + h) * queries + i) * keys + j);
    const PhiloxBlock r = philox(key, e / 4, call + (call_base ? u64(*call_base) : 0));
    const u32 lane = u32(e % 4);
    const u32 word = lane == 0 ? r.v[0] : lane == 1 ? r.v[1] : lane == 2 ? r.v[2] : r.v[3];
    return DropoutArgs::keeps(word, threshold) ? keep_scale : A(0);
  }
  // May a pair have weight 0? Then nothing is read that it multiplies.
  __device__ __forceinline__ bool hides() const { return mask || causal || threshold; }
  // Keys that query i may see, under `causal`.
  __device__ __forceinline__ i64 keys_of(i64 i) const {
    return causal && i + 1 < keys ? i + 1 : keys;
  }
};

template <class A, class T>
__device__ __forceinline__ A product_of(const T* a, i64 a_step, const T* b, i64 b_step, i64 n) {
  A sum = 0;
  for (i64 e = 0; e < n; ++e) sum += A(a[e * a_step]) * A(b[e * b_step]);
  return sum;
}

// The larger one; NaN stays.
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }

// --- arguments of the kernels ---

template <class T>
struct AttentionForward {
  using A = ComputeType<T>;
  Scores<T> s;
  HeadRows<const T> v;
  HeadRows<T> out;
  A* lse;
  int width;
  template <class F>
  void visit_pointers(F&& f) const {
    s.visit_pointers(f);
    f(v.data), f(out.data), f(lse);
  }
  __device__ __forceinline__ void save(i64 row, A most, A sum) const {
    if (lse) lse[row] = most == -A(INFINITY) ? A(INFINITY) : most + A(log(sum));
  }
};

template <class T>
AttentionForward<T> forward_of(const AttentionForwardArgs& a) {
  return {Scores<T>(a.scores), HeadRows<const T>(a.v), HeadRows<T>(a.out),
          a.lse.as<ComputeType<T>>(), int(a.v.size(3))};
}

template <class T>
struct AttentionBackward {
  using A = ComputeType<T>;
  Scores<T> s;
  HeadRows<const T> v, gout, out;
  HeadRows<T> gq, gk, gv;
  const A* lse;
  A* whole;  // D, a number a query: in the workspace
  int width;
  template <class F>
  void visit_pointers(F&& f) const {
    s.visit_pointers(f);
    f(v.data), f(gout.data), f(out.data), f(gq.data), f(gk.data), f(gv.data), f(lse), f(whole);
  }
};

template <class T>
AttentionBackward<T> backward_of(const AttentionBackwardArgs& a, const Launch& l) {
  using A = ComputeType<T>;
  return {Scores<T>(a.scores),      HeadRows<const T>(a.v), HeadRows<const T>(a.gout),
          HeadRows<const T>(a.out), HeadRows<T>(a.gq),      HeadRows<T>(a.gk),
          HeadRows<T>(a.gv),        a.lse.as<const A>(),    static_cast<A*>(l.workspace),
          int(a.v.size(3))};
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
