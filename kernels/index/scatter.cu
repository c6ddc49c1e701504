// Scatter on simt and cuda: of kernels/gather.h, whose gather is in gather.cu. The ladder:
//   naive   one thread an element of the source, which reads its whole line of indices: the last
//           (set) or the first (add) of a place acts
//   places  many threads find out who acts. set: each place's last element by atomicMax, whose
//           result has no order. i32 and i64: atomics, for sums that wrap are the same in every
//           order. f32 f16 bf16: a stable sort by place, then one thread adds all of a place
//   tiles   one warp a line, 32 elements a turn in order, who tell each other where they go; sums
//           (f32 f16 bf16) in shared memory
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/gather.h"
#include "warptape/kernels/index/position_sort.cuh"
#include "warptape/kernels/index/scatter.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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
  // All elements in the order of the source's memory, which is read once; out is written here and
  // there.
  w.nest = loop_nest<kOperands>({{a.source.data, &source},
                                 {a.index.data, &index},
                                 {a.out.data, &out},
                                 {nullptr, &place},
                                 {nullptr, &winner}},
                                distinct ? LoopOrder::logical : LoopOrder::memory);
  return w;
}

template <class U>
ScatterElements<U> elements_of(const ScatterArgs& a, const Walk& w, const LoopNest<kOperands>& nest,
                               const i64 (&first)[kOperands], u32* winner) {
  return {a.out.as<U>() + first[Out],
          a.source.as<const U>() + first[Source],
          winner + first[Winner],
          target_of(a, first[Index]),
          a.out.ndim() ? a.out.stride(a.axis) : 0,
          w.winner_step,
          first[Place],
          u32(nest.numel),
          index_map_32(nest)};
}
constexpr i64 kFromStart[kOperands] = {};
// Launches Kernel for parts of the walk whose offsets fit into 32 bits.
template <auto Kernel, class U>
void launch_walk(const ScatterArgs& a, const Launch& l, const Walk& w) {
  for_each_part(w.nest, kFromStart, 0,
                [&](const LoopNest<kOperands>& nest, const i64(&first)[kOperands], i64) {
                  launch<Kernel>(grid_of(l, ceil_div(nest.numel, kThreads), kThreads),
                                 elements_of<U>(a, w, nest, first, static_cast<u32*>(l.workspace)));
                });
}

void launch_winners(const ScatterArgs& a, const Launch& l) {
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

void launch_atomics(const ScatterArgs& a, const Launch& l) {
  if (a.out.dtype() == DType::i64)
    launch_walk<scatter_add_atomics<unsigned long long>, unsigned long long>(a, l,
                                                                             walk_of(a, false));
  else
    launch_walk<scatter_add_atomics<u32>, u32>(a, l, walk_of(a, false));
}

bool adds_floats(const ScatterArgs& a) {
  const DType t = a.out.dtype();
  return a.mode == ScatterMode::add && (t == DType::f32 || t == DType::f16 || t == DType::bf16);
}
bool adds_words(const ScatterArgs& a) {
  const DType t = a.out.dtype();
  return a.mode == ScatterMode::add && (t == DType::i64 || t == DType::i32);
}
// So few indices a line that every thread may read them all.
bool few_indices(const ScatterArgs& a) { return axis_size(a.index, a.axis) <= 32; }

i64 sums_bytes(const ScatterArgs& a) {
  return adds_floats(a) ? axis_size(a.out, a.axis) * i64(sizeof(float)) : 0;
}
const char* why_not_tiles(const ScatterArgs& a) {
  if (a.mode == ScatterMode::add && !adds_floats(a)) return "it adds f32, f16 and bf16 only";
  return axis_size(a.out, a.axis) < (1ll << 31) ? nullptr : "places are counted in 31 bits";
}
const char* why_not_tiles_on(const ScatterArgs& a, const DeviceLimits& limits) {
  return sums_bytes(a) <= limits.shared_bytes - 2 * 1024
             ? nullptr
             : "a line of the output must fit into a block's shared memory";
}
int rank_of_tiles(const ScatterArgs& a) {
  if (few_indices(a)) return 5;
  // Lines whose elements are neighbours, enough of them for the machine, and for adding not much
  // longer in out than in the index, for all of out's line is read and written.
  const i64 n = axis_size(a.index, a.axis), lines = a.index.numel() / n;
  const bool good = a.source.stride(a.axis) <= 1 && a.index.stride(a.axis) == 1 && lines >= 128 &&
                    (a.mode == ScatterMode::set || axis_size(a.out, a.axis) <= 4 * n);
  return good ? 30 : 15;
}
void launch_tiles(const ScatterArgs& a, const Launch& l) {
  if (a.index.numel() == 0) return;
  if (a.mode == ScatterMode::set)
    return with_unit(item_size(a.out.dtype()), [&](auto tag) {
      using U = typename decltype(tag)::type;
      const ScatterLines<U> k = lines_of<U>(a);
      launch<scatter_tiles<U>>(grid_of(l, k.rows.count, 32), k);
    });
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ScatterLines<T> k = lines_of<T>(a);
    launch<scatter_add_tiles<T>>(grid_of(l, k.rows.count, 32, sums_bytes(a)), k);
  });
}

// The elements of the source that share one of the index: in source and out.
LoopNest<2> copies_of(const ScatterArgs& a) {
  Geometry source = *a.source.geometry, out = source;
  for (int d = 0; d < source.ndim; ++d) {
    out.strides[d] = a.out.stride(d);
    if (d == a.axis || a.index.stride(d) != 0) source.shape[d] = out.shape[d] = 1;
  }
  finish_geometry(source);
  return loop_nest<2>({{a.source.data, &source}, {a.out.data, &out}});
}
void launch_sorted(const ScatterArgs& a, const Launch& l) {
  const Walk w = walk_of(a, true);
  const i64 n = w.nest.numel;
  const u32 no_place = u32(w.winners);  // the largest key
  u32* keys = static_cast<u32*>(l.workspace);
  launch<scatter_keys>(grid_of(l, ceil_div(n, kThreads), kThreads),
                       elements_of<u8>(a, w, w.nest, kFromStart, nullptr), keys, keys + n,
                       no_place);
  const SortedPositions sorted = sort_positions(l, keys, position_sort_space(n), w.winners);
  const LoopNest<2> copies = copies_of(a);
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ScatterSorted<T> k{elements_of<T>(a, w, w.nest, kFromStart, nullptr),
                             sorted.keys,
                             sorted.positions,
                             no_place,
                             u32(copies.numel),
                             index_map_32(copies)};
    launch<scatter_add_sorted<T>>(grid_of(l, ceil_div(n * copies.numel, kThreads), kThreads), k);
  });
}

const char* why_not_places(const ScatterArgs& a) {
  if (a.mode == ScatterMode::add && !adds_floats(a) && !adds_words(a))
    return "f64 and u8 are added by the naive rung only";
  if (a.index.numel() == 0) return nullptr;
  const Walk w = walk_of(a, true);
  const bool fits = a.index.numel() < (1ll << 31) && w.winners < (1ll << 32) - 1 &&
                    fits_32_bits(w.nest) && fits_32_bits(copies_of(a));
  return fits || (!adds_floats(a) && a.index.numel() < (1ll << 32) - 1)
             ? nullptr
             : "elements and their places are counted in 31 bits";
}
int rank_of_places(const ScatterArgs& a) { return few_indices(a) && !adds_words(a) ? 5 : 20; }
i64 places_workspace(const ScatterArgs& a) {
  if (a.index.numel() == 0 || adds_words(a)) return 0;
  const Walk w = walk_of(a, true);
  return 4 * (a.mode == ScatterMode::set ? w.winners : position_sort_space(w.nest.numel).total);
}
void launch_places(const ScatterArgs& a, const Launch& l) {
  if (a.index.numel() == 0) return;
  if (a.mode == ScatterMode::set)
    launch_winners(a, l);
  else if (adds_words(a))
    launch_atomics(a, l);
  else
    launch_sorted(a, l);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, scatter, ScatterArgs,
            {.name = "tiles",
             .rank = 30,
             .why_not = why_not_tiles,
             .why_not_on = why_not_tiles_on,
             .rank_of = rank_of_tiles,
             .launch = launch_tiles},
            {.name = "places",
             .rank = 20,
             .why_not = why_not_places,
             .rank_of = rank_of_places,
             .workspace = places_workspace,
             .launch = launch_places},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
