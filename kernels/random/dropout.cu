// Dropout on simt and cuda.
#include "warptape/kernels/dropout.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kThreadsMost = 256;

// The elements begin, begin + 1, ... of a call, offsets within 32 bits.
struct DropoutPart {
  void* out;
  const void* in;
  const i64* call_base;
  PhiloxKey key;
  u64 call;
  i64 begin;
  double scale;
  u32 threshold, numel;
  bool packs;  // dense and aligned, and begins with a block of counters
  IndexMap<2> map;

  template <class V>
  void visit_pointers(V&& v) const {
    v(out), v(in), v(call_base);
  }
  __device__ __forceinline__ PhiloxBlock block(i64 i) const {
    // Random numbers are a function of key, element and call: no state in memory, any thread can
    // make any of them, and grid, vector width and strides do not change them.
    return philox(key, u64(i / 4), call + (call_base ? u64(*call_base) : 0));
  }
};

template <class S>
__device__ __forceinline__ S kept_or_zero(const DropoutPart& p, S x, u32 word) {
  using T = ComputeType<S>;
  // A comparison of integers, and a select: lanes that keep and lanes that drop do not part ways.
  return DropoutArgs::keeps(word, p.threshold) ? S(T(x) * T(p.scale)) : S(0.0f);
}

template <class S>
__device__ __forceinline__ void one_element(const DropoutPart& p, u32 i) {
  i32 at[2];
  p.map.offsets(i, at);
  // Ten rounds for four words, of which a thread uses one: three quarters of the arithmetic is
  // thrown away. The vectorized rung makes each block once.
  const PhiloxBlock random = p.block(p.begin + i);
  const u32 lane = u32(p.begin + i) % 4;
  // Selects, not random.v[lane]: an array whose index is not known at compile time would leave the
  // registers for local memory.
  const u32 word = lane == 0   ? random.v[0]
                   : lane == 1 ? random.v[1]
                   : lane == 2 ? random.v[2]
                               : random.v[3];
  static_cast<S*>(p.out)[at[0]] = kept_or_zero(p, static_cast<const S*>(p.in)[at[1]], word);
}

template <class S>
__global__ void __launch_bounds__(kThreadsMost)
    dropout_naive(const __grid_constant__ DropoutPart p) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.numel) one_element<S>(p, i);
}

// A thread takes whole blocks of four random words: 16 bytes, 32 for f64.
template <class S>
constexpr int kPerThread = sizeof(S) >= 4 ? 4 : 8;

template <class S>
__global__ void __launch_bounds__(kThreadsMost)
    dropout_vectorized(const __grid_constant__ DropoutPart p) {
  constexpr int V = kPerThread<S>;
  const u32 i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  if (p.packs && i + V <= p.numel) {
    S v[V];
    // Issued first: the rounds of Philox do not need what it brings, and pass while it is under
    // way.
    load_vector(v, static_cast<const S*>(p.in) + i);
#pragma unroll
    for (int j = 0; j < V; j += 4) {
      const PhiloxBlock random = p.block(p.begin + i + j);
#pragma unroll
      for (int k = 0; k < 4; ++k) v[j + k] = kept_or_zero(p, v[j + k], random.v[k]);
    }
    // No mask is written: backward makes the same numbers again, from key and call.
    store_vector(static_cast<S*>(p.out) + i, v);
  } else {
    // Strided operands, and the last thread of dense ones.
#pragma unroll 1
    for (int j = 0; j < V && i + j < p.numel; ++j) one_element<S>(p, i + j);
  }
}

// --- host side ---
template <auto Kernel>
void launch_part(const DropoutPart& p, u32 each, const Launch& l) {
  const unsigned threads = (p.numel + each - 1) / each;
  const unsigned block = threads >= kThreadsMost ? kThreadsMost : (threads + 31) / 32 * 32;
  launch<Kernel>({.grid = (threads + block - 1) / block,
                  .block = block,
                  .stream = l.stream,
                  .op_name = l.op ? l.op->name : nullptr},
                 p);
}

template <class S, bool kNaive>
void launch_parts(const DropoutArgs& a, const Launch& l) {
  const i64 first[2] = {};
  for_each_part(loop_nest({a.out, a.in}), first, 0,
                [&](const LoopNest<2>& nest, const i64(&at)[2], i64 begin) {
                  DropoutPart p{a.out.as<S>() + at[0],
                                a.in.as<S>() + at[1],
                                a.call_base,
                                a.key,
                                a.call,
                                begin,
                                a.scale,
                                a.threshold,
                                u32(nest.numel),
                                false,
                                index_map_32(nest)};
                  if constexpr (kNaive) {
                    launch_part<dropout_naive<S>>(p, 1, l);
                  } else {
                    // A part that began within a block of counters would need parts of two blocks a
                    // pack.
                    p.packs = nest.dense() && nest.ndim > 0 && begin % kPerThread<S> == 0 &&
                              aligned_16(p.out) && aligned_16(p.in);
                    launch_part<dropout_vectorized<S>>(p, kPerThread<S>, l);
                  }
                });
}
template <bool kNaive>
void dropout_launch(const DropoutArgs& a, const Launch& l) {
  with_float_or_double(a.out.dtype(),
                       [&](auto tag) { launch_parts<typename decltype(tag)::type, kNaive>(a, l); });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, dropout, DropoutArgs,
            {.name = "vectorized", .rank = 10, .launch = dropout_launch<false>},
            {.name = "naive", .launch = dropout_launch<true>});

}  // namespace wt
