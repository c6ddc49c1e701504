// For kernels that give rows to threads, warps or blocks: grids, and 16-byte accesses to rows that
// may begin anywhere.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/simt/simt.h"
#include "warptape/kernels/vector.cuh"

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

// Threads of a block that takes a row of `packs` 16-byte packs: about four packs a thread.
inline i64 row_threads(i64 packs) {
  const i64 warps = ceil_div(packs, 4 * 32);
  return 32 * (warps < 1 ? 1 : warps > 32 ? 32 : warps);
}

constexpr i64 kTeamWarps = 4;  // rows a block when each has a warp

// A grid in which every row has a warp, or (Block) a block.
template <bool Block>
Config team_grid(const Launch& l, i64 rows, i64 length, i64 item_size) {
  if constexpr (Block)
    return grid_of(l, rows, row_threads(ceil_div(length * item_size, 16)));
  else
    return grid_of(l, ceil_div(rows, kTeamWarps), kTeamWarps * 32);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
