// Grids for kernels that give rows to threads, warps or blocks.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

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
