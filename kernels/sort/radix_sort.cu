// The radix sort of sort/radix_sort.cuh. A pass brings the keys in the order of one byte and
// keeps what was in order before, so a pass for each byte, the lowest first, sorts. Three kernels a
// pass:
//   count  each tile of a row counts its 256 digits
//   scan   the counts in the order (digit, tile) give each tile its place for each digit
//   place  each tile sorts itself in shared memory, then writes runs of equal digits
// It moves the keys three times a pass and the places twice. A sort that scans while it places
// reads keys once less, but its blocks wait for each other.
#include "warptape/kernels/sort/radix_sort.cuh"

#include "warptape/kernels/device/block_reduce.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kRadixThreads = 256, kRadixWarps = kRadixThreads / 32;
static_assert(kRadixThreads == kDigits);  // where threads stand for digits

template <class K>
struct RadixPass {
  const K* keys;
  const u32* places;  // null: in order
  K* keys_out;
  u32 *places_out, *table;
  u32 length, tiles;
  int shift;
  template <class F>
  void visit_pointers(F&& f) const {
    f(keys), f(places), f(keys_out), f(places_out), f(table);
  }
  __device__ __forceinline__ u32 digit(K key) const { return u32(key >> shift) & 255; }
};

// The tile of a block.
template <class K>
struct RadixTile {
  i64 row_start;  // of its row, in the keys of all rows
  u32 begin, count;
  __device__ __forceinline__ explicit RadixTile(const RadixPass<K>& s) {
    // A block's only division.
    const u32 row = blockIdx.x / s.tiles, tile = blockIdx.x - row * s.tiles;
    row_start = i64(row) * s.length;
    begin = tile * u32(kRadixTile<K>);
    const u32 rest = s.length - begin;
    count = rest < kRadixTile<K> ? rest : u32(kRadixTile<K>);
  }
};

template <class K>
__global__ void __launch_bounds__(kRadixThreads) radix_count(RadixPass<K> s) {
  WT_SHARED(u32, count, [kDigits]);
  const u32 t = threadIdx.x;
  const RadixTile<K> tile(s);
  count[t] = 0;
  __syncthreads();
  const K* keys = s.keys + tile.row_start + tile.begin;
  // Atomics of integers in shared memory: any order of additions gives the same counts. Equal
  // digits in a warp, as the upper bytes of floats have them, are served one after the other.
  for (u32 i = t; i < tile.count; i += kRadixThreads) atomicAdd(&count[s.digit(keys[i])], 1u);
  __syncthreads();
  s.table[i64(blockIdx.x) * kDigits + t] = count[t];
}

// Sums of `v` over the lanes up to this one.
__device__ __forceinline__ u32 warp_running_sum(u32 v) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const u32 below = __shfl_up_sync(kAllLanes, v, d);
    if (lane >= d) v += below;
  }
  return v;
}

constexpr int kScanSlices = 4, kScanThreads = kScanSlices * int(kDigits);

// One block a row. A thread has one digit in a quarter of the tiles: the 256 counts of a tile lie
// in a row, so a warp reads 128 bytes at a time, and four tiles are on their way at once.
__global__ void __launch_bounds__(kScanThreads) radix_scan(u32* tables, u32 tiles) {
  WT_SHARED(u32, sums, [kScanSlices][kDigits]);
  WT_SHARED(u32, warps, [kRadixWarps]);
  const u32 digit = threadIdx.x % kDigits, slice = threadIdx.x / kDigits;
  u32* const table = tables + i64(blockIdx.x) * tiles * kDigits + digit;
  const u32 run = (tiles + kScanSlices - 1) / kScanSlices;
  const u32 begin = slice * run < tiles ? slice * run : tiles;
  const u32 end = begin + run < tiles ? begin + run : tiles;
  u32 sum = 0;
  for (u32 k = begin; k < end; ++k) sum += table[i64(k) * kDigits];
  sums[slice][digit] = sum;
  __syncthreads();
  // Digits in order, and for each of them the tiles in order. The sum over digits is the first
  // slice's, in two steps: within a warp, then over the eight warps.
  u32 all = 0;
  for (int k = 0; k < kScanSlices; ++k) all += sums[k][digit];
  const u32 up_to = warp_running_sum(all);
  if (slice == 0 && digit % 32 == 31) warps[digit / 32] = up_to;
  __syncthreads();
  u32 at = up_to - all;
  for (u32 w = 0; w < digit / 32; ++w) at += warps[w];
  for (u32 k = 0; k < slice; ++k) at += sums[k][digit];
  for (u32 k = begin; k < end; ++k) {
    const u32 count = table[i64(k) * kDigits];
    table[i64(k) * kDigits] = at;
    at += count;
  }
}

template <class K>
__global__ void __launch_bounds__(kRadixThreads) radix_place(RadixPass<K> s) {
  constexpr int kItems = int(kRadixTile<K>) / kRadixThreads;
  WT_SHARED(u32, next, [kRadixWarps][kDigits]);
  WT_SHARED(u32, to_global, [kDigits]);
  WT_SHARED(u32, warps, [kRadixWarps]);
  WT_SHARED(K, keys, [kRadixTile<K>]);
  WT_SHARED(u32, places, [kRadixTile<K>]);
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  const RadixTile<K> tile(s);
  for (u32 d = lane; d < kDigits; d += 32) next[warp][d] = 0;
  // A warp has a run of 32 * kItems elements, 32 neighbours at a time. All loads are on their way
  // before the first vote waits for one.
  const u32 first = warp * 32 * kItems;
  K own[kItems];
  u32 rank[kItems];  // among the warp's elements with the same digit
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const u32 i = first + u32(k) * 32 + lane;
    own[k] = i < tile.count ? s.keys[tile.row_start + tile.begin + i] : K(0);
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    rank[k] = 0;
    if (first + u32(k) * 32 >= tile.count) continue;  // the whole warp
    const bool inside = first + u32(k) * 32 + lane < tile.count;
    const u32 digit = s.digit(own[k]);
    // Stable, which atomics would not be: lanes are ranked among those with the same digit. Eight
    // votes, a bit each, leave in `same` the lanes that agree with this one in all bits.
    unsigned same = __ballot_sync(kAllLanes, inside);
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = digit >> bit & 1;
      const unsigned with = __ballot_sync(kAllLanes, set);
      same &= set ? with : ~with;
    }
    const u32 before = u32(__popc(same & ((1u << lane) - 1)));
    rank[k] = next[warp][digit] + before;
    // All have read it before the first lane of a digit moves it; and the next 32 read it after.
    __syncwarp();
    if (inside && before == 0) next[warp][digit] += u32(__popc(same));
    __syncwarp();
  }
  __syncthreads();
  // A thread a digit: from counts of the warps to where each warp's first such element lies in the
  // sorted tile.
  u32 all = 0;
  for (int w = 0; w < kRadixWarps; ++w) {
    const u32 count = next[w][t];
    next[w][t] = all;
    all += count;
  }
  const u32 up_to = warp_running_sum(all);
  if (lane == 31) warps[warp] = up_to;
  __syncthreads();
  u32 start = up_to - all;
  for (u32 w = 0; w < warp; ++w) start += warps[w];
  for (int w = 0; w < kRadixWarps; ++w) next[w][t] += start;
  // Element i of the sorted tile goes to i + to_global[its digit]; modulo 2^32 where that is less.
  to_global[t] = s.table[i64(blockIdx.x) * kDigits + t] - start;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const u32 i = first + u32(k) * 32 + lane;
    if (i >= tile.count) continue;
    const u32 to = next[warp][s.digit(own[k])] + rank[k];
    keys[to] = own[k];
    places[to] = s.places ? s.places[tile.row_start + tile.begin + i] : tile.begin + i;
  }
  __syncthreads();
  // Neighbours of the sorted tile with one digit are neighbours in memory too: runs of 16 elements
  // on average. Written from where they were read they would go to 32 places a warp, with 32 bytes
  // moved for each four.
  for (u32 i = t; i < tile.count; i += kRadixThreads) {
    const K key = keys[i];
    const i64 to = tile.row_start + u32(to_global[s.digit(key)] + i);
    s.keys_out[to] = key;
    s.places_out[to] = places[i];
  }
}

}  // namespace

template <class K>
void radix_sort(RadixSort<K>& s, int passes, const Launch& l) {
  if (s.rows == 0 || s.length == 0) return;
  const i64 tiles = s.rows * s.tiles;
  for (int pass = 0; pass < passes; ++pass) {
    const RadixPass<K> p{s.keys,       pass == 0 ? nullptr : s.places,
                         s.spare_keys, s.spare_places,
                         s.table,      u32(s.length),
                         u32(s.tiles), 8 * pass};
    launch<radix_count<K>>(grid_of(l, tiles, kRadixThreads), p);
    launch<radix_scan>(grid_of(l, s.rows, kScanThreads), s.table, u32(s.tiles));
    launch<radix_place<K>>(grid_of(l, tiles, kRadixThreads), p);
    K* const keys = s.keys;
    u32* const places = s.places;
    s.keys = s.spare_keys, s.places = s.spare_places;
    s.spare_keys = keys, s.spare_places = places;
  }
}
template void radix_sort<u32>(RadixSort<u32>&, int, const Launch&);
template void radix_sort<u64>(RadixSort<u64>&, int, const Launch&);

}  // namespace WT_DEVICE_NS
}  // namespace wt
