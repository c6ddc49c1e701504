// A stable sort of positions by a key of 32 bits, for kernels that add up what has one key in a
// fixed order. The same keys give the same order, whichever warp comes first.
//
//   const PositionSortSpace space = position_sort_space(n);  // workspace: 4 * space.total bytes
//   u32* w = static_cast<u32*>(l.workspace);
//   launch<my_keys>(..., w, w + n);                          // keys, and positions 0 to n - 1
//   const SortedPositions sorted = sort_positions(l, w, space, largest_key);
#pragma once
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Radix sort, 8 bits a pass. Each warp owns a run of positions (a chunk): it counts its digits, the
// counts are scanned digit by digit, and it places its positions in order. Nothing depends on which
// warp comes first.
constexpr int kDigits = 256;
constexpr i64 kMaxChunks = 256;

struct PositionSort {
  const u32 *keys, *positions;
  u32 *keys_out, *positions_out;
  u32* table;  // [digit][chunk]: counts, then where the chunk's first such digit goes
  u32 n, chunk, chunks;
  int shift;
  template <class F>
  void visit_pointers(F&& f) const {
    f(keys), f(positions), f(keys_out), f(positions_out), f(table);
  }
};

__global__ void __launch_bounds__(32) sort_count_digits(PositionSort s) {
  // One warp a block: __syncwarp, which costs next to nothing, is barrier enough.
  WT_SHARED(u32, count, [kDigits]);
  const u32 lane = threadIdx.x, begin = blockIdx.x * s.chunk;
  const u32 end = s.n - begin < s.chunk ? s.n : begin + s.chunk;
  for (u32 d = lane; d < kDigits; d += 32) count[d] = 0;
  __syncwarp();
  // Atomics of integers in shared memory: any order of additions gives the same counts. Lanes with
  // one digit are served one after the other, so equal tokens in a row are the slow case.
  for (u32 i = begin + lane; i < end; i += 32) atomicAdd(&count[s.keys[i] >> s.shift & 255], 1u);
  __syncwarp();
  // By digits, then chunks: the scan of the table in this order gives each chunk its place for each
  // digit.
  for (u32 d = lane; d < kDigits; d += 32) s.table[d * s.chunks + blockIdx.x] = count[d];
}

// Exclusive sum over the table by one block; each thread takes a run of it.
constexpr int kScanThreads = 256;
__global__ void __launch_bounds__(kScanThreads) sort_scan_counts(PositionSort s) {
  WT_SHARED(u32, sums, [kScanThreads]);
  const u32 run = kDigits * s.chunks / kScanThreads, begin = threadIdx.x * run;
  u32 sum = 0;
  for (u32 i = begin; i < begin + run; ++i) sum += s.table[i];
  // Two passes over its run: the sum first; where the run begins is known only when all threads
  // have theirs.
  sums[threadIdx.x] = sum;
  __syncthreads();
  // 256 threads read sums[0], then sums[1], ... together: one address, sent to all lanes, no
  // conflict.
  u32 at = 0;
  for (u32 t = 0; t < threadIdx.x; ++t) at += sums[t];
  for (u32 i = begin; i < begin + run; ++i) {
    const u32 count = s.table[i];
    s.table[i] = at;
    at += count;
  }
}
static_assert(kDigits % kScanThreads == 0);

__global__ void __launch_bounds__(32) sort_place(PositionSort s) {
  WT_SHARED(u32, next, [kDigits]);
  const u32 lane = threadIdx.x, begin = blockIdx.x * s.chunk;
  const u32 end = s.n - begin < s.chunk ? s.n : begin + s.chunk;
  for (u32 d = lane; d < kDigits; d += 32) next[d] = s.table[d * s.chunks + blockIdx.x];
  __syncwarp();
  for (u32 tile = begin; tile < end; tile += 32) {
    const u32 i = tile + lane;
    const bool inside = i < end;
    const u32 key = inside ? s.keys[i] : 0, digit = key >> s.shift & 255;
    // Stable, which atomics would not be: the lanes of a tile are ranked among those with the same
    // digit. Eight votes, a bit each, leave in `same` the lanes that agree with this one in all
    // bits.
    unsigned same = __ballot_sync(0xffffffffu, inside);  // lanes with the same digit
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = digit >> bit & 1;
      const unsigned with = __ballot_sync(0xffffffffu, set);
      same &= set ? with : ~with;
    }
    // Of these, those before this lane.
    const u32 rank = u32(__popc(same & ((1u << lane) - 1)));
    // All lanes have read next[digit] before the first of a digit moves it: that is the first
    // __syncwarp. The second keeps the next tile from reading it too early.
    const u32 to = next[digit] + rank;
    __syncwarp();
    if (inside && rank == 0) next[digit] += u32(__popc(same));
    __syncwarp();
    if (!inside) continue;
    s.keys_out[to] = key;
    s.positions_out[to] = s.positions[i];
  }
}

// Where the sort has what, in u32 from the first key: keys and positions twice each, then counts.
struct PositionSortSpace {
  i64 n, chunk, chunks, table, total;
};
inline PositionSortSpace position_sort_space(i64 n) {
  PositionSortSpace s;
  s.n = n;
  s.chunk = ceil_div(ceil_div(n, kMaxChunks), 32) * 32;
  if (s.chunk < 512) s.chunk = 512;
  s.chunks = ceil_div(n, s.chunk);
  s.table = 4 * n;
  s.total = s.table + kDigits * s.chunks;
  return s;
}

struct SortedPositions {
  const u32 *keys, *positions;
};
// Three launches for each eight bits of the largest key.
inline SortedPositions sort_positions(const Launch& l, u32* w, const PositionSortSpace& space,
                                      i64 largest_key) {
  u32 *keys = w, *positions = w + space.n;
  u32 *spare_keys = w + 2 * space.n, *spare_positions = w + 3 * space.n;
  for (int shift = 0; space.n > 0 && largest_key >> shift > 0; shift += 8) {
    const PositionSort s{keys,
                         positions,
                         spare_keys,
                         spare_positions,
                         w + space.table,
                         u32(space.n),
                         u32(space.chunk),
                         u32(space.chunks),
                         shift};
    launch<sort_count_digits>(grid_of(l, space.chunks, 32), s);
    launch<sort_scan_counts>(grid_of(l, 1, kScanThreads), s);
    launch<sort_place>(grid_of(l, space.chunks, 32), s);
    u32 *const old_keys = keys, *const old_positions = positions;
    keys = spare_keys, positions = spare_positions;
    spare_keys = old_keys, spare_positions = old_positions;
  }
  return {keys, positions};
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
