// What the forwards of layer_norm, rms_norm and add_norm and their gradients of the input share:
// the ladder's kernels, of which each finds `naive_row`, `warp_row` or `block_row` by the type of
// its arguments (norm/norm_forward.cuh, norm_gradient.cuh), and their launch.
//   naive  one thread a row, several passes over it; neighbouring threads read far apart
//   block  one block a row of any length and strides; the forward keeps the row in shared memory if
//          it fits, else reads it again
//   warp   one warp a row of at most 1024, which stays in registers: one read, one write, 16 bytes
//          at a time
#pragma once
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/norm/norm_operands.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- the kernels ---
// Kernel: the arguments, with Element, rows, and functions of the host: of and cache_bytes.

// One block a processor at least: of 64 threads alone ptxas aims at so many blocks that it spills.
template <class Kernel>
__global__ void __launch_bounds__(64, 1) layer_norm_naive(Kernel a) {
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < a.rows.count) naive_row(a, row);
}

// The bound promises blocks of 128 threads, which leaves each of them 255 registers. Of a block of
// 1024 each has 64, which two arrays of a row of 1024 would fill alone: the rest would spill.
template <class Kernel, int PerLane>
__global__ void __launch_bounds__(kTeamWarps * 32) layer_norm_warp(Kernel a) {
  // The condition is the same for a whole warp, so the shuffles inside have all of their lanes.
  const i64 row = i64(blockIdx.x) * kTeamWarps + threadIdx.x / 32;
  if (row < a.rows.count) warp_row<PerLane>(a, row, int(threadIdx.x) % 32);
}

template <class Kernel>
__global__ void __launch_bounds__(kRowThreadsMost) layer_norm_block(Kernel a) {
  // Each thread reads back what it wrote itself: no barrier.
  WT_DYN_SHARED(Pack16<typename Kernel::Element>, cache);
  // The row is the same for all threads: they reach the barriers inside together, or none does.
  for (i64 row = blockIdx.x; row < a.rows.count; row += gridDim.x) block_row(a, row, cache);
}

// --- walking a row with a block ---

// The block's threads share the elements of a row: single(i) for one, pack(p, i) for pack p, which
// begins at i. A thread gets the same elements at every walk.
template <class T, class Single, class Pack>
__device__ __forceinline__ void walk_row(const PackSplit& split, i64 n, Single single, Pack pack) {
  // Pack p goes to thread p modulo the block: in each turn the warps read 512 bytes each, side by
  // side. In consecutive packs a thread a warp's load would touch 32 places.
  const i64 t = threadIdx.x, threads = blockDim.x;
  for (i64 i = t; i < split.head; i += threads) single(i);
  for (i64 p = t; p < split.packs; p += threads) pack(p, split.head + p * kPerPack<T>);
  for (i64 i = split.tail + t; i < n; i += threads) single(i);
}
// kPerPack<T> elements of a parameter, wherever they begin.
template <class T>
__device__ __forceinline__ void load_parameter(float (&v)[kPerPack<T>], const T* p, float absent) {
  // A parameter may be a view that begins anywhere; p is the same for all rows, so the branch goes
  // one way.
  if (p && aligned_16(p)) {
    const auto pack = vload<Pack16<T>>(p);
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j) v[j] = float(pack.v[j]);
    return;
  }
  // Neighbouring elements one by one: the first load brings the sector, the others find it in L1.
#pragma unroll
  for (int j = 0; j < kPerPack<T>; ++j) v[j] = p ? float(p[j]) : absent;
}
template <class T>
__device__ __forceinline__ const T* at_or_null(const T* p, i64 i) {
  return p ? p + i : nullptr;
}

__device__ __forceinline__ bool equally_far(const void* a, const void* b) {  // from a boundary
  return ((reinterpret_cast<uintptr_t>(a) ^ reinterpret_cast<uintptr_t>(b)) & 15) == 0;
}

// --- choice and launch ---

constexpr int kWarpLongest = 1024;

template <class Args>
const char* not_double(const Args& a) {
  return a.x.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
template <int N>
bool packs_fit(const NormOperands<N>& operands, const Rows<N>& rows, i64 pack) {
  const void* base[N];
  for (int k = 0; k < N; ++k) base[k] = operands.at[k].view.data;
  return rows_aligned(rows, base, pack);
}
template <class Args>
bool parameters_aligned(const Args& a) {
  if constexpr (requires { a.bias; })
    if (!aligned_16(a.bias.data)) return false;
  return aligned_16(a.weight.data);
}
template <class Args>
const char* why_not_warp(const Args& a) {
  const auto rows = norm_rows(a);
  if (rows.length > kWarpLongest) return "rows of at most 1024 elements";
  if (!unit_steps(rows)) return "the elements of a row must be neighbours";
  if (!packs_fit(norm_operands(a), rows, 16 / item_size(a.x.dtype())) || !parameters_aligned(a))
    return "every row, weight and bias must begin at a 16-byte boundary";
  return not_double(a);
}

inline i64 blocks_for(i64 rows, i64 length, i64 per_block) {
  return length ? ceil_div(rows, per_block) : 0;
}
template <template <class> class Kernel, class Args>
void launch_naive(const Args& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using K = Kernel<typename decltype(tag)::type>;
    const K k{K::of(a)};
    launch<layer_norm_naive<K>>(grid_of(l, blocks_for(k.rows.count, k.rows.length, 64), 64), k);
  });
}
template <template <class> class Kernel, class Args>
void launch_warp(const Args& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using K = Kernel<typename decltype(tag)::type>;
    const K k{K::of(a)};
    const Config c =
        grid_of(l, blocks_for(k.rows.count, k.rows.length, kTeamWarps), kTeamWarps * 32);
    // The loops are unrolled to the end, whatever the row's length: 32 steps for a row of 64 would
    // be 30 steps over padding, in registers that keep other warps from the processor.
    if (k.rows.length <= 256)
      launch<layer_norm_warp<K, 8>>(c, k);
    else
      launch<layer_norm_warp<K, 32>>(c, k);
  });
}
template <template <class> class Kernel, class Args>
void launch_block(const Args& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Kernel<T> k{Kernel<T>::of(a)};
    const i64 packs = ceil_div(k.rows.length, kPerPack<T>);
    const i64 shared = k.cache_bytes(packs, row_cache_limit(l));
    launch<layer_norm_block<Kernel<T>>>(
        grid_of(l, blocks_for(k.rows.count, packs, 1), row_threads(packs), shared), k);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_LAYER_NORM_LADDER(Kernel, Args)                                                        \
  {.name = "warp", .rank = 30, .why_not = why_not_warp<Args>, .launch = launch_warp<Kernel>},     \
      {.name = "block", .rank = 20, .why_not = not_double<Args>, .launch = launch_block<Kernel>}, \
  {                                                                                               \
    .name = "naive", .rank = 10, .launch = launch_naive<Kernel>                                   \
  }

}  // namespace wt
