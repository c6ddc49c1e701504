// From the number of an element to where it lies in strided operands, for kernels.
//
//   template <class Map>
//   __global__ void add(Map map, i64 n, float* y, const float* a, const float* b) {
//     ...
//     typename Map::Offset at[3];
//     map.offsets(typename Map::Index(i), at);
//     y[at[0]] = a[at[1]] + b[at[2]];
//   }
//   const LoopNest<3> nest = loop_nest({out, a, b});
//   with_index_map(nest, [&](auto map) { launch<add<decltype(map)>>(..., map, ...); });
//
// The 32-bit form divides by multiplication; the 64-bit one is for what does not fit.
#pragma once
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// n / divisor for n < 2^31 as a multiplication and a shift: with s = ceil(log2 d) and
// m = floor(2^32 (2^s - d) / d) + 1, n / d = (mulhi(n, m) + n) >> s.
struct FastDivisor {
  u32 divisor, multiplier, shift;
};
WT_HOT
FastDivisor fast_divisor(u32 d) {
  u32 s = 0;
  while ((u64(1) << s) < d) ++s;
  return {d, u32((((u64(1) << s) - d) << 32) / d + 1), s};
}
__device__ __forceinline__ u32 divide(u32 n, const FastDivisor& d) {
  return (__umulhi(n, d.multiplier) + n) >> d.shift;
}

// Element numbers and offsets below 2^31.
template <int N>
struct IndexMap {
  using Index = u32;
  using Offset = i32;
  int ndim;
  FastDivisor size[kMaxDims];
  i32 stride[N][kMaxDims];

  __device__ __forceinline__ void offsets(u32 i, i32 (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
#pragma unroll 1
    for (int d = 0; d < ndim; ++d) {
      const u32 rest = divide(i, size[d]), own = i - rest * size[d].divisor;
#pragma unroll
      for (int k = 0; k < N; ++k) at[k] += i32(own) * stride[k][d];
      i = rest;
    }
  }
};

template <int N>
struct IndexMap64 {
  using Index = i64;
  using Offset = i64;
  int ndim;
  i64 size[kMaxDims];
  i64 stride[N][kMaxDims];

  __device__ __forceinline__ void offsets(i64 i, i64 (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
#pragma unroll 1
    for (int d = 0; d < ndim; ++d) {
      const i64 rest = i / size[d], own = i - rest * size[d];
#pragma unroll
      for (int k = 0; k < N; ++k) at[k] += own * stride[k][d];
      i = rest;
    }
  }
};

// --- host side ---
// The last element of every operand is less than 2^31 elements from the first, and so is numel.
template <int N>
WT_HOT bool fits_32_bits(const LoopNest<N>& nest) {
  constexpr i64 kLimit = i64(1) << 31;
  if (nest.numel >= kLimit) return false;
  for (int k = 0; k < N; ++k) {
    i64 reach = 0;
    for (int d = 0; d < nest.ndim; ++d) {
      const i64 step = nest.stride[k][d] < 0 ? -nest.stride[k][d] : nest.stride[k][d];
      if (step >= kLimit) return false;
      reach += (nest.size[d] - 1) * step;
      if (reach >= kLimit) return false;
    }
  }
  return true;
}

template <int N>
WT_HOT IndexMap<N> index_map_32(const LoopNest<N>& nest) {
  IndexMap<N> map{};
  map.ndim = nest.ndim;
  for (int d = 0; d < nest.ndim; ++d) {
    map.size[d] = fast_divisor(u32(nest.size[d]));
    for (int k = 0; k < N; ++k) map.stride[k][d] = i32(nest.stride[k][d]);
  }
  return map;
}

template <int N>
WT_HOT IndexMap64<N> index_map_64(const LoopNest<N>& nest) {
  IndexMap64<N> map{};
  map.ndim = nest.ndim;
  for (int d = 0; d < nest.ndim; ++d) {
    map.size[d] = nest.size[d];
    for (int k = 0; k < N; ++k) map.stride[k][d] = nest.stride[k][d];
  }
  return map;
}

// Calls f with the map that fits.
template <int N, class F>
WT_HOT void with_index_map(const LoopNest<N>& nest, F&& f) {
  if (fits_32_bits(nest))
    f(index_map_32(nest));
  else
    f(index_map_64(nest));
}

// For kernels that have no 64-bit form: halves the outermost dimension until what is left fits, and
// calls f(nest, first, begin) for the parts in order. Operand k of a part begins at element
// first[k], and the part's elements are begin, begin + 1, ... of the whole walk.
template <int N, class Part>
void for_each_part(LoopNest<N> nest, const i64 (&first)[N], i64 begin, const Part& f) {
  while (nest.ndim > 0 && nest.size[nest.ndim - 1] == 1) --nest.ndim;
  if (nest.numel == 0) return;
  if (fits_32_bits(nest)) return f(nest, first, begin);
  const int d = nest.ndim - 1;
  const i64 size = nest.size[d], half = size < 32 ? size / 2 : size / 32 * 16;  // packs stay whole
  i64 second[N];
  for (int k = 0; k < N; ++k) second[k] = first[k] + half * nest.stride[k][d];
  LoopNest<N> part = nest;
  part.size[d] = half;
  part.numel = nest.numel / size * half;
  for_each_part(part, first, begin, f);
  begin += part.numel;
  part.size[d] = size - half;
  part.numel = nest.numel - part.numel;
  for_each_part(part, second, begin, f);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
