// Scatter on simt and cuda: of kernels/gather.h, whose gather is in gather.cu. Of the elements that
// name one place, all but one thread must keep out of the way, and who that is must not depend on
// who comes first. The ladder:
//   naive    one thread an element of the source, which reads its whole line of indices: the last
//            (set) or the first (add) of a place acts
//   winners  set: each place's last element by atomicMax, whose result has no order; then one
//            thread an element of the source
//   atomics  add, i32 and i64: sums that wrap are the same in every order
//   tiles    add, f32 f16 bf16: one warp a line, 32 elements a turn in order, sums in shared memory
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/gather.h"

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

template <class T>
__global__ void __launch_bounds__(kThreads) scatter_naive(ScatterLines<T> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x, n = a.rows.length;
  if (i >= a.rows.count * n) return;
  const i64 line = i / n, j = i % n;
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
  const i64 line = i / n, j = i % n;
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

// --- add: a warp a line ---

template <class T>
__global__ void __launch_bounds__(32) scatter_add_tiles(ScatterLines<T> a) {
  // One warp a block: __syncwarp, which costs next to nothing, is barrier enough.
  WT_DYN_SHARED(float, sums);
  WT_SHARED(float, tile, [32]);
  const int lane = int(threadIdx.x);
  const int limit = int(a.target.limit);
  const i64 n = a.rows.length, step = a.rows.step[a.Index];
  // Votes that tell two places of a line apart.
  const int bits = 32 - __clz(limit - 1);
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
      // Which lanes go to the same place as this one: they agree with it in all bits of `to`, a
      // vote a bit. One of them, the first, then adds the values of all in their order. Atomics
      // would need no votes and add in any order.
      unsigned same = __ballot_sync(kAllLanes, good);
      for (int b = 0; b < bits; ++b) {
        const bool set = to >> b & 1;
        const unsigned with = __ballot_sync(kAllLanes, set);
        same &= set ? with : ~with;
      }
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

// --- host side ---

i64 axis_size(const View& v, int axis) { return v.ndim() == 0 ? 1 : v.size(axis); }

// What the walks see of `out`: the shape of the index.
Geometry reached(const View& out, const View& index) {
  Geometry g = *index.geometry;
  for (int d = 0; d < g.ndim; ++d) g.strides[d] = out.stride(d);
  return g;
}
Geometry places(const View& index) {
  Geometry g = *index.geometry;
  i64 step = 1;
  for (int d = g.ndim; d-- > 0;) {
    g.strides[d] = step;
    step *= g.shape[d];
  }
  return g;
}
Target target_of(const ScatterArgs& a, i64 first_index = 0) {
  return {{a.index.as<const char>() + first_index * item_size(a.index.dtype()),
           a.index.dtype() == DType::i64},
          axis_size(a.out, a.axis),
          a.mailbox,
          a.op_id};
}
template <class T>
ScatterLines<T> lines_of(const ScatterArgs& a) {
  const Geometry out = reached(a.out, a.index), place = places(a.index);
  return {rows_along<4>(a.axis, {{a.source}, {a.index}, {{a.out.data, &out}}, {{nullptr, &place}}}),
          a.out.as<T>(), a.source.as<const T>(), target_of(a)};
}

template <class F>
void with_number(DType t, F f) {
  if (is_floating(t))
    with_float_or_double(t, f);
  else
    with_unit(item_size(t), f);  // unsigned: sums wrap
}
void launch_naive(const ScatterArgs& a, const Launch& l) {
  const Config c = grid_of(l, ceil_div(a.index.numel(), kThreads), kThreads);
  if (a.mode == ScatterMode::set)
    with_unit(item_size(a.out.dtype()), [&](auto tag) {
      using U = typename decltype(tag)::type;
      launch<scatter_naive<U>>(c, lines_of<U>(a));
    });
  else
    with_number(a.out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch<scatter_add_naive<T>>(c, lines_of<T>(a));
    });
}

// How the elements are walked; `distinct`: those that share an index are one.
struct Walk {
  LoopNest<kOperands> nest;
  i64 winners = 1, winner_step = 1;  // the table's elements, and from one place to the next
};
Walk walk_of(const ScatterArgs& a, bool distinct) {
  Walk w;
  Geometry source = *a.source.geometry, index = *a.index.geometry;
  Geometry out = index, place = index, winner = index;
  i64 step = 1;
  for (int d = index.ndim; d-- > 0;) {
    const bool axis = d == a.axis, shared = !axis && index.strides[d] == 0;
    out.strides[d] = axis ? 0 : a.out.stride(d);
    place.strides[d] = shared ? 0 : step;
    step *= index.shape[d];
    winner.strides[d] = axis || shared ? 0 : w.winners;
    if (axis) w.winner_step = w.winners;
    if (!shared) w.winners *= axis ? axis_size(a.out, a.axis) : index.shape[d];
    if (shared && distinct)
      source.shape[d] = index.shape[d] = out.shape[d] = place.shape[d] = winner.shape[d] = 1;
  }
  finish_geometry(source);
  // In the order of the source's memory, which is read once; out is written here and there.
  w.nest = loop_nest<kOperands>({{a.source.data, &source},
                                 {a.index.data, &index},
                                 {a.out.data, &out},
                                 {nullptr, &place},
                                 {nullptr, &winner}},
                                LoopOrder::memory);
  return w;
}

// Launches Kernel for parts of the walk whose offsets fit into 32 bits.
template <auto Kernel, class U>
void launch_walk(const ScatterArgs& a, const Launch& l, const Walk& w) {
  const i64 zero[kOperands] = {};
  for_each_part(w.nest, zero, 0,
                [&](const LoopNest<kOperands>& nest, const i64(&first)[kOperands], i64) {
                  const ScatterElements<U> k{a.out.as<U>() + first[Out],
                                             a.source.as<const U>() + first[Source],
                                             static_cast<u32*>(l.workspace) + first[Winner],
                                             target_of(a, first[Index]),
                                             a.out.ndim() ? a.out.stride(a.axis) : 0,
                                             w.winner_step,
                                             first[Place],
                                             u32(nest.numel),
                                             index_map_32(nest)};
                  launch<Kernel>(grid_of(l, ceil_div(nest.numel, kThreads), kThreads), k);
                });
}

const char* why_not_winners(const ScatterArgs& a) {
  if (a.mode != ScatterMode::set) return "for writing only, not for adding";
  return a.index.numel() < (1ll << 32) - 1 ? nullptr : "places are counted in 32 bits";
}
i64 winners_workspace(const ScatterArgs& a) {
  return a.index.numel() == 0 ? 0 : 4 * walk_of(a, true).winners;
}
void launch_winners(const ScatterArgs& a, const Launch& l) {
  if (a.index.numel() == 0) return;
  const Walk distinct = walk_of(a, true);
  launch<scatter_clear_winners>(grid_of(l, ceil_div(distinct.winners, kThreads), kThreads),
                                static_cast<u32*>(l.workspace), distinct.winners);
  // An index that is the same along other axes is looked at once and has one winner for all.
  launch_walk<scatter_find_winners, u8>(a, l, distinct);
  with_unit(item_size(a.out.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch_walk<scatter_put_winners<U>, U>(a, l, walk_of(a, false));
  });
}

const char* why_not_atomics(const ScatterArgs& a) {
  const DType t = a.out.dtype();
  return a.mode == ScatterMode::add && (t == DType::i64 || t == DType::i32)
             ? nullptr
             : "for adding i64 or i32 only: atomics add in any order";
}
void launch_atomics(const ScatterArgs& a, const Launch& l) {
  if (a.out.dtype() == DType::i64)
    launch_walk<scatter_add_atomics<unsigned long long>, unsigned long long>(a, l,
                                                                             walk_of(a, false));
  else
    launch_walk<scatter_add_atomics<u32>, u32>(a, l, walk_of(a, false));
}

i64 sums_bytes(const ScatterArgs& a) { return axis_size(a.out, a.axis) * i64(sizeof(float)); }
const char* why_not_tiles(const ScatterArgs& a) {
  const DType t = a.out.dtype();
  if (a.mode != ScatterMode::add || (t != DType::f32 && t != DType::f16 && t != DType::bf16))
    return "for adding f32, f16 or bf16 only";
  return nullptr;
}
const char* why_not_tiles_on(const ScatterArgs& a, const DeviceLimits& limits) {
  return sums_bytes(a) <= limits.shared_bytes - 2 * 1024
             ? nullptr
             : "a line of the output must fit into a block's shared memory";
}
int rank_of_tiles(const ScatterArgs& a) {
  // A short line of indices is soon read, also by every thread; a long line of out is not.
  return axis_size(a.index, a.axis) <= 32 ? 5 : 30;
}
void launch_tiles(const ScatterArgs& a, const Launch& l) {
  if (a.index.numel() == 0) return;
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ScatterLines<T> k = lines_of<T>(a);
    launch<scatter_add_tiles<T>>(grid_of(l, k.rows.count, 32, sums_bytes(a)), k);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, scatter, ScatterArgs,
            {.name = "winners",
             .rank = 30,
             .why_not = why_not_winners,
             .workspace = winners_workspace,
             .launch = launch_winners},
            {.name = "atomics", .rank = 30, .why_not = why_not_atomics, .launch = launch_atomics},
            {.name = "tiles",
             .rank = 30,
             .why_not = why_not_tiles,
             .why_not_on = why_not_tiles_on,
             .rank_of = rank_of_tiles,
             .launch = launch_tiles},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
