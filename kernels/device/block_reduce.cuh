// Reductions over the threads of a warp or a block. Deterministic: the order of the operations
// depends on the block size alone, so the same values give the same bits. Every thread gets the
// result. Blocks are one-dimensional, of whole warps.
#pragma once
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
// A NaN operand is ignored; whoever needs NaN in the result carries it otherwise.
struct Larger {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return max(a, b);
  }
};

// What reduces by butterflies goes through this; types wider than a register overload it.
template <class T>
__device__ __forceinline__ T shuffle_xor(T v, int lanes) {
  return __shfl_xor_sync(kAllLanes, v, lanes);
}

// Two sums that are reduced together: of values and of squares, or of g and of g * h. Two
// butterflies in one: their shuffles do not wait for each other.
template <class A>
struct TwoSums {
  A first, second;
};
template <class A>
__device__ __forceinline__ TwoSums<A> shuffle_xor(TwoSums<A> v, int lanes) {
  return {wt::shuffle_xor(v.first, lanes), wt::shuffle_xor(v.second, lanes)};
}
struct PlusBoth {
  template <class A>
  __device__ __forceinline__ TwoSums<A> operator()(TwoSums<A> a, TwoSums<A> b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

// Over groups of Width neighbouring lanes; all 32 lanes call it. `op` must commute bit for bit (a
// sum of products that the compiler may fuse does not).
template <int Width = 32, class T, class Op>
__device__ __forceinline__ T warp_reduce(T v, Op op) {
#if defined(WT_WHOLE_BUTTERFLIES)
  return warp_butterfly<Width>(v, op);
#else
#pragma unroll
  for (int lanes = Width / 2; lanes > 0; lanes /= 2) v = op(v, shuffle_xor(v, lanes));
  return v;
#endif
}

// Over the block; all its threads call it. Two barriers and 32 T of shared memory; T needs no
// constructor. Partial results are added in the order of the warps.
template <class T, class Op>
__device__ T block_reduce(T v, Op op) {
  WT_SHARED(T, partial, [32]);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = warp_reduce(v, op);
  if (warps == 1) return v;
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  v = partial[0];
  for (unsigned w = 1; w < warps; ++w) v = op(v, partial[w]);
  __syncthreads();  // the next reduction writes `partial` again
  return v;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
