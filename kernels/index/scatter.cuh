// The kernels of scatter, which kernels/index/scatter.cu launches. Of the elements that name one
// place, all but one thread must keep out of the way, and who that is must not depend on who comes
// first.
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/device/strided_index.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;

// Where an element goes, and who hears of it if that is nowhere.
struct Target {
  IndexList index;
  i64 limit;
  MailboxRecord* mailbox;
  u32 op_id;
  __device__ __forceinline__ bool good(i64 value, i64 place) const {
    if (value >= 0 && value < limit) return true;
    report_bad_index(mailbox, MailboxCode::index_out_of_range, op_id, place, value, limit);
    return false;
  }
};

// --- lines: what has the same coordinates but for the axis ---

template <class T>
struct ScatterLines {
  enum { Source, Index, Out, Place };  // the operands of `rows`, which have the index's shape
  Rows<4> rows;
  T* out;
  const T* source;
  Target target;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(source), f(target.index.at), f(target.mailbox);
  }
  // The indices of a line.
  __device__ __forceinline__ IndexList indices(i64 line) const {
    const i64 at = rows.start(Index, line);
    const IndexList& all = target.index;
    return {all.wide ? static_cast<const void*>(static_cast<const i64*>(all.at) + at)
                     : static_cast<const void*>(static_cast<const i32*>(all.at) + at),
            all.wide};
  }
};

// Which element of which line thread i has: neighbours of the line where these lie side by side,
// else neighbouring lines.
struct LineElement {
  i64 line, j;
  template <class T>
  __device__ __forceinline__ LineElement(const ScatterLines<T>& a, i64 i) {
    const bool along = a.rows.step[a.Source] == 1;
    const i64 run = along ? a.rows.length : a.rows.count, quotient = i / run;
    line = along ? quotient : i - quotient * run;
    j = along ? i - quotient * run : quotient;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) scatter_naive(ScatterLines<T> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x, n = a.rows.length;
  if (i >= a.rows.count * n) return;
  const auto [line, j] = LineElement(a, i);
  const IndexList index = a.indices(line);
  const i64 step = a.rows.step[a.Index], to = index[j * step];
  if (!a.target.good(to, a.rows.start(a.Place, line) + j * a.rows.step[a.Place])) return;
  // Each thread asks every later element of the line whether it wants the same place: n reads for
  // one write, n * n a line. The caches serve most of them, for all threads of a line read the
  // same.
  for (i64 k = j + 1; k < n; ++k)
    if (index[k * step] == to) return;
  a.rows.row(a.Out, a.out, line)[to] = a.rows.row(a.Source, a.source, line)[j];
}

template <class T>
__global__ void __launch_bounds__(kThreads) scatter_add_naive(ScatterLines<T> a) {
  using A = ComputeType<T>;
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x, n = a.rows.length;
  if (i >= a.rows.count * n) return;
  const auto [line, j] = LineElement(a, i);
  const IndexList index = a.indices(line);
  const i64 step = a.rows.step[a.Index], to = index[j * step];
  if (!a.target.good(to, a.rows.start(a.Place, line) + j * a.rows.step[a.Place])) return;
  for (i64 k = 0; k < j; ++k)
    if (index[k * step] == to) return;
  // The first of its place adds for all of them, in their order, in a register: 16-bit sums are
  // rounded once. A place that everybody names is the work of one thread.
  T& out = a.rows.row(a.Out, a.out, line)[to];
  const auto source = a.rows.row(a.Source, a.source, line);
  A sum = A(out);
  for (i64 k = j; k < n; ++k)
    if (index[k * step] == to) sum = A(sum + A(source[k]));
  out = T(sum);
}

// --- a warp a line ---

// Which lanes go to the same place as this one: they agree with it in all `bits` of `to`, a vote a
// bit. Nothing for a lane that goes nowhere.
__device__ __forceinline__ unsigned lanes_alike(i64 to, bool good, int bits) {
  unsigned same = __ballot_sync(kAllLanes, good);
  for (int b = 0; b < bits; ++b) {
    const bool set = to >> b & 1;
    const unsigned with = __ballot_sync(kAllLanes, set);
    same &= set ? with : ~with;
  }
  return good ? same : 0;
}
// Votes that tell the places of a line apart.
__device__ __forceinline__ int bits_of(i64 limit) { return 32 - __clz(int(limit) - 1); }

template <class U>
__global__ void __launch_bounds__(32) scatter_tiles(ScatterLines<U> a) {
  const int lane = int(threadIdx.x), bits = bits_of(a.target.limit);
  const i64 n = a.rows.length, step = a.rows.step[a.Index];
  for (i64 line = blockIdx.x; line < a.rows.count; line += gridDim.x) {
    const IndexList index = a.indices(line);
    const auto out = a.rows.row(a.Out, a.out, line);
    const auto source = a.rows.row(a.Source, a.source, line);
    for (i64 tile_begin = 0; tile_begin < n; tile_begin += 32) {
      const i64 j = tile_begin + lane;
      const i64 to = j < n ? index[j * step] : -1;
      const bool good =
          j < n && a.target.good(to, a.rows.start(a.Place, line) + j * a.rows.step[a.Place]);
      // Everything is read once, in a row where the axis is the innermost. The last lane of a place
      // writes; the turns follow each other, and __syncwarp keeps their writes in this order.
      if (lanes_alike(to, good, bits) >> lane == 1) out[to] = source[j];
      __syncwarp();
    }
  }
}

template <class T>
__global__ void __launch_bounds__(32) scatter_add_tiles(ScatterLines<T> a) {
  // One warp a block: __syncwarp, which costs next to nothing, is barrier enough.
  WT_DYN_SHARED(float, sums);
  WT_SHARED(float, tile, [32]);
  const int lane = int(threadIdx.x), limit = int(a.target.limit), bits = bits_of(limit);
  const i64 n = a.rows.length, step = a.rows.step[a.Index];
  for (i64 line = blockIdx.x; line < a.rows.count; line += gridDim.x) {
    const IndexList index = a.indices(line);
    const auto out = a.rows.row(a.Out, a.out, line);
    const auto source = a.rows.row(a.Source, a.source, line);
    // All of the line of out in shared memory, as float: an addition there is some 30 cycles and
    // not the several hundred of a round trip to L2, and 16-bit sums are rounded once, at the end.
    for (int p = lane; p < limit; p += 32) sums[p] = float(out[p]);
    for (i64 tile_begin = 0; tile_begin < n; tile_begin += 32) {
      const i64 j = tile_begin + lane;
      // 256 bytes of indices and 128 of values (f32) in a row, where the axis is the innermost.
      const i64 to = j < n ? index[j * step] : -1;
      const bool good =
          j < n && a.target.good(to, a.rows.start(a.Place, line) + j * a.rows.step[a.Place]);
      tile[lane] = good ? float(source[j]) : 0.0f;
      // The first lane of a place adds the values of all in their order. Atomics would need no
      // votes and add in any order.
      const unsigned same = lanes_alike(to, good, bits);
      __syncwarp();  // `tile` is written, and what the last turn added is there
      if (good && (same & ((1u << lane) - 1)) == 0) {
        float sum = sums[to];
        for (unsigned rest = same; rest != 0; rest &= rest - 1) sum += tile[__ffs(int(rest)) - 1];
        sums[to] = sum;
      }
      __syncwarp();  // the next turn writes `tile`
    }
    // Places that no index names get back what they had.
    for (int p = lane; p < limit; p += 32) out[p] = T(sums[p]);
    __syncwarp();
  }
}

// --- elements ---

// The walk over all elements of the source. Place: number of the index's element in C order, the
// same for all that share an index. Out and Winner: where the index is 0.
enum { Source, Index, Out, Place, Winner, kOperands };

template <class U>
struct ScatterElements {
  U* out;
  const U* source;
  u32* winner;  // 1 + the place of the last index that names it, 0: none
  Target target;
  i64 out_step, winner_step, first_place;
  u32 numel;
  IndexMap<kOperands> map;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(source), f(winner), f(target.index.at), f(target.mailbox);
  }
};

__global__ void __launch_bounds__(kThreads) scatter_clear_winners(u32* winner, i64 n) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) winner[i] = 0;
}

__global__ void __launch_bounds__(kThreads)
    scatter_find_winners(const __grid_constant__ ScatterElements<u8> a) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kOperands];
  a.map.offsets(i, at);
  const i64 to = a.target.index[at[Index]], place = a.first_place + at[Place];
  // Those that name one place meet here in any order; the maximum is the same whichever comes
  // first. Along a line the places ascend, so the maximum is the last j.
  if (a.target.good(to, place))
    atomicMax(&a.winner[at[Winner] + to * a.winner_step], u32(place + 1));
}

template <class U>
__global__ void __launch_bounds__(kThreads)
    scatter_put_winners(const __grid_constant__ ScatterElements<U> a) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kOperands];
  a.map.offsets(i, at);
  const i64 to = a.target.index[at[Index]];
  // Bad indices were reported when the winners were found.
  if (to < 0 || to >= a.target.limit) return;
  if (a.winner[at[Winner] + to * a.winner_step] == u32(a.first_place + at[Place] + 1))
    a.out[at[Out] + to * a.out_step] = a.source[at[Source]];
}

template <class U>
__global__ void __launch_bounds__(kThreads)
    scatter_add_atomics(const __grid_constant__ ScatterElements<U> a) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kOperands];
  a.map.offsets(i, at);
  const i64 to = a.target.index[at[Index]];
  // Sums modulo 2^bits do not know in which order they were made. Those of floats do.
  if (a.target.good(to, a.first_place + at[Place]))
    atomicAdd(&a.out[at[Out] + to * a.out_step], a.source[at[Source]]);
}

// --- add: sorted ---

// The walk is over the elements of the index that are not repetitions, in C order. A key is the
// element's place in a table like that of the winners, so equal keys are one place of one line.
__global__ void __launch_bounds__(kThreads)
    scatter_keys(const __grid_constant__ ScatterElements<u8> a, u32* keys, u32* positions,
                 u32 no_place) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kOperands];
  a.map.offsets(i, at);
  const i64 to = a.target.index[at[Index]];
  keys[i] = a.target.good(to, at[Place]) ? u32(at[Winner] + to * a.winner_step) : no_place;
  positions[i] = i;
}

template <class T>
struct ScatterSorted {
  ScatterElements<T> elements;
  const u32 *keys, *positions;
  u32 no_place;
  u32 copies;          // elements of the source that share one of the index
  IndexMap<2> beside;  // where they lie from the first one: in source, in out
  template <class F>
  void visit_pointers(F&& f) const {
    elements.visit_pointers(f), f(keys), f(positions);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_add_sorted(const __grid_constant__ ScatterSorted<T> a) {
  using A = ComputeType<T>;
  const ScatterElements<T>& e = a.elements;
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= e.numel * a.copies) return;
  // Neighbouring threads take copies of one element of the index, columns of a row say, which are
  // neighbours in the source and in out. The first element of a place adds for all: its threads
  // find them one after the other in the sorted list, where the others find a key like their own
  // before them and leave.
  const u32 first = i / a.copies, copy = i - first * a.copies, key = a.keys[first];
  if (key == a.no_place || (first > 0 && a.keys[first - 1] == key)) return;
  i32 at[kOperands], beside[2];
  a.beside.offsets(copy, beside);
  e.map.offsets(a.positions[first], at);
  T& out = e.out[at[Out] + e.target.index[at[Index]] * e.out_step + beside[1]];
  A sum = A(out);
  // Four at a time: their loads are under way together, the additions are in the order of the
  // index, which the sort has kept.
  constexpr int kBatch = 4;
  bool more = true;
  for (u32 k = first; more; k += kBatch) {
    u32 position[kBatch];
    i32 from[kBatch];
    bool own[kBatch];
    A v[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      own[j] = k + j < e.numel && a.keys[k + j] == key;
      position[j] = k + j < e.numel ? a.positions[k + j] : 0;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      e.map.offsets(position[j], at);
      from[j] = at[Source] + beside[0];
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) v[j] = own[j] ? A(e.source[from[j]]) : A(0);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (own[j]) sum += v[j];
    more = own[kBatch - 1];
  }
  out = T(sum);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
