// For kernels that give rows to threads, warps or blocks: grids, and 16-byte accesses to rows that
// may begin anywhere.
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// 16 bytes of T.
template <class T>
constexpr int kPerPack = 16 / int(sizeof(T));
template <class T>
using Pack16 = Pack<T, kPerPack<T>>;

// How a run of elements splits around 16-byte boundaries: `head` single elements, `packs` whole
// packs, and single elements again from `tail` on. Runs that do not begin at the same distance
// from a boundary, or whose elements are not neighbours, are all head.
struct PackSplit {
  i64 head, packs, tail;
};
template <class T>
__device__ __forceinline__ PackSplit split_into_packs(const T* a, const T* b, i64 n,
                                                      bool neighbours) {
  const auto pa = reinterpret_cast<uintptr_t>(a), pb = reinterpret_cast<uintptr_t>(b);
  if (!neighbours || ((pa ^ pb) & 15) != 0) return {n, 0, n};
  i64 head = i64((16 - (pa & 15)) & 15) / i64(sizeof(T));
  if (head > n) head = n;
  const i64 packs = (n - head) / kPerPack<T>;
  return {head, packs, head + packs * kPerPack<T>};
}

inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Kernels whose grid is cut at 2^31 - 1 blocks go on with the next rows.
inline Config grid_of(const Launch& l, i64 blocks, i64 threads, i64 shared_bytes = 0) {
  return {.grid = unsigned(blocks < 0x7fffffff ? blocks : 0x7fffffff),
          .block = unsigned(threads),
          .shared_bytes = size_t(shared_bytes),
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}

// Threads of a block that takes a row of `packs` 16-byte packs: about four packs a thread. A kernel
// so launched promises the most: 64 registers a thread are then all that the compiler may use, for
// with more a block of 1024 could not be launched at all.
constexpr i64 kRowThreadsMost = 1024;
inline i64 row_threads(i64 packs) {
  const i64 threads = 32 * ceil_div(packs, 4 * 32);
  return threads < 32 ? 32 : threads > kRowThreadsMost ? kRowThreadsMost : threads;
}

// Bytes of a row that a block may keep in dynamic shared memory: 225 KiB on an H100, 97 on an L4. A
// longer row is read again. 2 KiB are left for what reductions have statically.
inline i64 row_cache_limit(const Launch& l) {
  return device_limits(l.device).shared_bytes - 2 * 1024;
}

constexpr i64 kTeamWarps = 4;  // rows a block when each has a warp

// A grid in which every row has a warp, or (Block) a block; and the threads of its largest block.
template <bool Block>
constexpr i64 kTeamThreads = Block ? kRowThreadsMost : kTeamWarps * 32;
template <bool Block>
Config team_grid(const Launch& l, i64 rows, i64 length, i64 item_size) {
  if constexpr (Block)
    return grid_of(l, rows, row_threads(ceil_div(length * item_size, 16)));
  else
    return grid_of(l, ceil_div(rows, kTeamWarps), kTeamWarps * 32);
}

// --- rows of at most 32 * PerLane elements in the registers of a warp ---
// Vec = kPerPack<T>: every row begins at a 16-byte boundary; Vec = 1: any rows of neighbours.

// Reads this lane's part of a row: element (k * 32 + lane) * Vec + j is v[k * Vec + j]. What lies
// past the end reads as `pad`.
template <int Vec, int PerLane, class T>
__device__ __forceinline__ void load_lane(float (&v)[PerLane], const T* row, int n, int lane,
                                          float pad) {
#pragma unroll
  for (int k = 0; k < PerLane / Vec; ++k) {
    const int at = (k * 32 + lane) * Vec;
    if (Vec > 1 && at + Vec <= n) {
      const auto pack = vload<Pack16<T>>(row + at);
#pragma unroll
      for (int j = 0; j < Vec; ++j) v[k * Vec + j] = float(pack.v[j % kPerPack<T>]);
    } else {
#pragma unroll
      for (int j = 0; j < Vec; ++j) v[k * Vec + j] = at + j < n ? float(row[at + j]) : pad;
    }
  }
}
template <int Vec, int PerLane, class T>
__device__ __forceinline__ void store_lane(T* row, const float (&v)[PerLane], int n, int lane) {
#pragma unroll
  for (int k = 0; k < PerLane / Vec; ++k) {
    const int at = (k * 32 + lane) * Vec;
    if (Vec > 1 && at + Vec <= n) {
      Pack16<T> pack;
#pragma unroll
      for (int j = 0; j < Vec; ++j) pack.v[j % kPerPack<T>] = T(v[k * Vec + j]);
      vstore(row + at, pack);
    } else {
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        if (at + j < n) row[at + j] = T(v[k * Vec + j]);
    }
  }
}

template <int K>
bool unit_steps(const Rows<K>& r) {
  for (int k = 0; k < K; ++k)
    if (!r.unit_step(k)) return false;
  return true;
}
// Every row of every operand begins at a 16-byte boundary.
template <int K>
bool rows_aligned(const Rows<K>& r, const void* const (&base)[K], i64 pack) {
  for (int k = 0; k < K; ++k) {
    if (reinterpret_cast<uintptr_t>(base[k]) % 16 != 0) return false;
    for (int d = 0; d < r.dims; ++d)
      if (r.stride[k][d] % pack != 0) return false;
  }
  return true;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
