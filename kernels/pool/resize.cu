// Resizing along one axis on simt and cuda.
//   naive  one thread an element; where it reads is computed for each, in f64
//   taps   a first kernel writes down where every output of the axis reads, once for all lines;
//          four elements a thread, whose coordinates are multiplications instead of 64-bit
//          divisions and whose loads are under way together
//   packs  the elements of a thread are at one place of the axis, for which it asks the table once:
//          16 bytes of neighbours where those lie beside each other (rows are resized, or
//          channels_last), else four lines
#include "warptape/kernels/resize.h"

#include "warptape/kernels/device/axis_walk.cuh"
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr int kBatch = 4;

// --- the axis ---

// low never falls, so that the outputs that read input j are those whose low is j - 1 or j: from
// first_at(j - 1) up to first_at(j), and from there up to first_at(j + 1).
template <class Low>
__device__ __forceinline__ i64 first_output(i64 outputs, i64 j, const Low& low) {
  i64 begin = 0, end = outputs;
  while (begin < end) {
    const i64 middle = begin + (end - begin) / 2;
    if (low(middle) < j)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// Computed where it is wanted.
template <class A>
struct ComputedAxis {
  ResizeMap map;
  __device__ __forceinline__ A own(i64 i) const { return A(1 - map(i).weight); }
  __device__ __forceinline__ A next(i64 i) const { return A(map(i).weight); }
  __device__ __forceinline__ i64 first_at(i64 j) const {
    return first_output(map.out, j, [&](i64 i) WT_INLINE_LAMBDA { return map(i).low; });
  }
  template <class F>
  void visit_pointers(F&&) const {}
};

// What is written down of an output: 16 bytes, read at once, the weights as they are multiplied.
struct alignas(16) TableTap {
  i32 low;
  float own, next;
};
struct TableAxis {
  ResizeMap map;
  TableTap* taps;
  i32* first;  // [in + 2]: the first output whose low is not below j; backward only
  template <class F>
  void visit_pointers(F&& f) const {
    f(taps), f(first);
  }
  __device__ __forceinline__ float own(i64 i) const { return taps[i].own; }
  __device__ __forceinline__ float next(i64 i) const { return taps[i].next; }
};

__global__ void __launch_bounds__(kThreads) resize_taps(TableAxis axis) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < axis.map.out; i += stride) {
    const ResizeMap::Tap tap = axis.map(i);
    axis.taps[i] = {i32(tap.low), float(1 - tap.weight), float(tap.weight)};
  }
}
__global__ void __launch_bounds__(kThreads) resize_first(TableAxis axis) {
  const i64 stride = i64(gridDim.x) * kThreads;
  const auto low = [&](i64 i) WT_INLINE_LAMBDA { return axis.taps[i].low; };
  for (i64 j = i64(blockIdx.x) * kThreads + threadIdx.x; j < axis.map.in + 2; j += stride)
    axis.first[j] = i32(first_output(axis.map.out, j, low));
}

// --- forward ---

template <class T, class Axis, class Map>
struct Resize {
  T* to;
  const T* from;
  Axis axis;
  i64 step;  // of `from` along the axis
  i64 numel;
  Map walk;
  i64 to_step = 0, from_step = 0;  // of the four lines of a thread: Together
  template <class F>
  void visit_pointers(F&& f) const {
    f(to), f(from);
    axis.visit_pointers(f);
  }
};
template <class T>
using PlainResize = Resize<T, ComputedAxis<ComputeType<T>>, IndexMap64<kAxisOperands>>;
template <class T>
using TableResize = Resize<T, TableAxis, IndexMap<kAxisOperands>>;

template <class T, class A>
__device__ __forceinline__ T between(const T* at, A own, A next, i64 step) {
  if (next == 0) return *at;  // the next one may be none, or not finite
  return T(own * A(at[0]) + next * A(at[step]));
}

template <class T>
__global__ void __launch_bounds__(kThreads) resize_naive(const __grid_constant__ PlainResize<T> a) {
  using A = ComputeType<T>;
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < a.numel; i += stride) {
    i64 at[kAxisOperands];
    a.walk.offsets(i, at);
    const ResizeMap::Tap tap = a.axis.map(at[Place]);
    a.to[at[To]] =
        between(a.from + at[From] + tap.low * a.step, A(1 - tap.weight), A(tap.weight), a.step);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_by_taps(const __grid_constant__ TableResize<T> a) {
  // A thread's elements are a block apart, so that in each turn lanes are neighbours. Beyond the
  // end the last one is read again: no branch stands between the loads.
  const i64 first = i64(blockIdx.x) * (kThreads * kBatch) + threadIdx.x;
  const T* from[kBatch];
  i32 to[kBatch];
  TableTap tap[kBatch];
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    i32 at[kAxisOperands];
    a.walk.offsets(u32(min(first + k * kThreads, a.numel - 1)), at);
    tap[k] = vload<TableTap>(a.axis.taps + at[Place]);
    from[k] = a.from + at[From];
    to[k] = at[To];
  }
  T value[kBatch];
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    value[k] = between(from[k] + tap[k].low * a.step, tap[k].own, tap[k].next, a.step);
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) a.to[to[k]] = value[k];
}

template <class T, bool Packs>
__global__ void __launch_bounds__(kThreads) resize_packs(const __grid_constant__ TableResize<T> a) {
  constexpr int kN = kTogether<T, Packs>;
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kAxisOperands];
  a.walk.offsets(u32(i), at);
  const TableTap tap = vload<TableTap>(a.axis.taps + at[Place]);
  const T* const from = a.from + at[From] + tap.low * a.step;
  T v[kN];
  fetch_together<Packs>(v, from, a.from_step);
  if (tap.next != 0) {
    T beside[kN];
    fetch_together<Packs>(beside, from + a.step, a.from_step);
#pragma unroll
    for (int e = 0; e < kN; ++e) v[e] = T(tap.own * float(v[e]) + tap.next * float(beside[e]));
  }
  put_together<Packs>(a.to + at[To], v, a.to_step);
}

// --- backward ---

// The sum over the outputs that read input j, in their order.
template <class T, class Axis>
__device__ __forceinline__ T pulled(const T* line, i64 begin, i64 own, i64 end, const Axis& axis,
                                    i64 step) {
  using A = ComputeType<T>;
  A sum = 0;
  for (i64 i = begin; i < own; ++i) sum += axis.next(i) * A(line[i * step]);
  for (i64 i = own; i < end; ++i) sum += axis.own(i) * A(line[i * step]);
  return T(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_backward_naive(const __grid_constant__ PlainResize<T> a) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < a.numel; i += stride) {
    i64 at[kAxisOperands];
    a.walk.offsets(i, at);
    const i64 j = at[Place];
    // Each thread looks for its outputs by halving, with the map's divisions at every step.
    a.to[at[To]] = pulled(a.from + at[From], j == 0 ? 0 : a.axis.first_at(j - 1),
                          a.axis.first_at(j), a.axis.first_at(j + 1), a.axis, a.step);
  }
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_backward_by_taps(const __grid_constant__ TableResize<T> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kAxisOperands];
  a.walk.offsets(u32(i), at);
  const i32* first = a.axis.first + at[Place];
  a.to[at[To]] =
      pulled(a.from + at[From], at[Place] == 0 ? 0 : first[-1], first[0], first[1], a.axis, a.step);
}
template <class T, bool Packs>
__global__ void __launch_bounds__(kThreads)
    resize_backward_packs(const __grid_constant__ TableResize<T> a) {
  constexpr int kN = kTogether<T, Packs>;
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kAxisOperands];
  a.walk.offsets(u32(i), at);
  const i32* first = a.axis.first + at[Place];
  const i32 own = first[0], end = first[1];
  float sum[kN] = {};
  for (i32 o = at[Place] == 0 ? 0 : first[-1]; o < end; ++o) {
    const TableTap tap = vload<TableTap>(a.axis.taps + o);
    const float weight = o < own ? tap.next : tap.own;
    T v[kN];
    fetch_together<Packs>(v, a.from + at[From] + o * a.step, a.from_step);
#pragma unroll
    for (int e = 0; e < kN; ++e) sum[e] += weight * float(v[e]);
  }
  T v[kN];
#pragma unroll
  for (int e = 0; e < kN; ++e) v[e] = T(sum[e]);
  put_together<Packs>(a.to + at[To], v, a.to_step);
}

// --- host side ---

i64 taps_bytes(const ResizeMap& map) { return map.out * i64(sizeof(TableTap)); }
TableAxis axis_of(const ResizeMap& map, void* workspace) {
  TableTap* const taps = static_cast<TableTap*>(workspace);
  return {map, taps, reinterpret_cast<i32*>(taps + map.out)};
}
i64 forward_workspace(const ResizeArgs& a) { return a.out.numel() ? taps_bytes(a.map) : 0; }
i64 backward_workspace(const ResizeBackwardArgs& a) {
  return a.gin.numel() ? taps_bytes(a.map) + (a.map.in + 2) * i64(sizeof(i32)) : 0;
}
Config thread_each(const Launch& l, i64 n) { return grid_of(l, ceil_div(n, kThreads), kThreads); }

template <class T>
PlainResize<T> plain_kernel_of(const View& to, const View& from, int axis, const ResizeMap& map) {
  const LoopNest<kAxisOperands> nest = axis_nest(to, from, axis);
  return {to.as<T>(), from.as<const T>(), {map}, axis_step(from, axis),
          nest.numel, index_map_64(nest)};
}
void launch_naive(const ResizeArgs& a, const Launch& l) {
  with_float_or_double(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = plain_kernel_of<T>(a.out, a.in, a.axis, a.map);
    launch<resize_naive<T>>(thread_each(l, k.numel), k);
  });
}
void launch_backward_naive(const ResizeBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.gin.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = plain_kernel_of<T>(a.gin, a.gout, a.axis, a.map);
    launch<resize_backward_naive<T>>(thread_each(l, k.numel), k);
  });
}

// f(kernel's arguments) for the parts of a walk that fit 32 bits.
template <class T, class F>
void for_each_table_part(const Together& t, const View& to, const View& from, int axis,
                         const TableAxis& on, const F& f) {
  const i64 zero[kAxisOperands] = {};
  for_each_part(t.nest, zero, 0,
                [&](const LoopNest<kAxisOperands>& nest, const i64(&first)[kAxisOperands], i64) {
                  TableAxis part = on;
                  part.taps += first[Place];  // its places count from its first one
                  f(TableResize<T>{to.as<T>() + first[To], from.as<const T>() + first[From], part,
                                   axis_step(from, axis), nest.numel, index_map_32(nest), t.to_step,
                                   t.from_step});
                });
}

TableAxis written_axis(const ResizeMap& map, const Launch& l) {
  const TableAxis axis = axis_of(map, l.workspace);
  launch<resize_taps>(thread_each(l, map.out), axis);
  return axis;
}
void launch_by_taps(const ResizeArgs& a, const Launch& l) {
  if (a.out.numel() == 0) return;
  const TableAxis axis = written_axis(a.map, l);
  const Together single{.nest = axis_nest(a.out, a.in, a.axis)};
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_table_part<T>(single, a.out, a.in, a.axis, axis, [&](const TableResize<T>& k) {
      launch<resize_by_taps<T>>(grid_of(l, ceil_div(k.numel, kThreads * kBatch), kThreads), k);
    });
  });
}
bool reads_together(Together& t, const View& to, const View& from, int axis) {
  const i64 pack = 16 / item_size(to.dtype());
  return take_together(t, to, from, axis_step(from, axis) % pack == 0, false);
}
bool together(const ResizeArgs& a, Together& t) {
  t.nest = axis_nest(a.out, a.in, a.axis);
  return reads_together(t, a.out, a.in, a.axis);
}
void launch_packs(const ResizeArgs& a, const Launch& l) {
  Together t;
  if (a.out.numel() == 0 || !together(a, t)) return;
  const TableAxis axis = written_axis(a.map, l);
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_table_part<T>(t, a.out, a.in, a.axis, axis, [&](const TableResize<T>& k) {
      const Config c = thread_each(l, k.numel);
      t.packs ? launch<resize_packs<T, true>>(c, k) : launch<resize_packs<T, false>>(c, k);
    });
  });
}

// In one part: `first` counts from the axis' beginning.
template <class F>
void with_backward_table(const ResizeBackwardArgs& a, const Launch& l, const Together& t,
                         const F& f) {
  const TableAxis axis = written_axis(a.map, l);
  launch<resize_first>(thread_each(l, a.map.in + 2), axis);
  with_float(a.gin.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_table_part<T>(t, a.gin, a.gout, a.axis, axis, f);
  });
}
void launch_backward_by_taps(const ResizeBackwardArgs& a, const Launch& l) {
  if (a.gin.numel() == 0) return;
  const Together single{.nest = axis_nest(a.gin, a.gout, a.axis)};
  with_backward_table(a, l, single, [&]<class T>(const TableResize<T>& k) {
    launch<resize_backward_by_taps<T>>(thread_each(l, k.numel), k);
  });
}
bool together(const ResizeBackwardArgs& a, Together& t) {
  t.nest = axis_nest(a.gin, a.gout, a.axis);
  return reads_together(t, a.gin, a.gout, a.axis);
}
void launch_backward_packs(const ResizeBackwardArgs& a, const Launch& l) {
  Together t;
  if (a.gin.numel() == 0 || !together(a, t)) return;
  with_backward_table(a, l, t, [&]<class T>(const TableResize<T>& k) {
    const Config c = thread_each(l, k.numel);
    t.packs ? launch<resize_backward_packs<T, true>>(c, k)
            : launch<resize_backward_packs<T, false>>(c, k);
  });
}

const char* why_no_table(DType t, const ResizeMap& map) {
  if (t == DType::f64) return "f64 has the naive rung only";
  constexpr i64 kLimit = INT32_MAX - 1;
  return map.in < kLimit && map.out < kLimit ? nullptr : "axes below 2^31 - 2 only";
}
const char* why_not_taps(const ResizeArgs& a) { return why_no_table(a.out.dtype(), a.map); }
const char* why_not_backward_taps(const ResizeBackwardArgs& a) {
  if (const char* why = why_no_table(a.gin.dtype(), a.map)) return why;
  return fits_32_bits(axis_nest(a.gin, a.gout, a.axis)) ? nullptr : "elements below 2^31 only";
}
const char* why_not_packs(const ResizeArgs& a) {
  Together t;
  if (const char* why = why_not_taps(a)) return why;
  return together(a, t) ? nullptr : why_not_together();
}
const char* why_not_backward_packs(const ResizeBackwardArgs& a) {
  Together t;
  if (const char* why = why_not_backward_taps(a)) return why;
  return together(a, t) ? nullptr : why_not_together();
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, resize, ResizeArgs,
            {.name = "packs",
             .rank = 30,
             .why_not = why_not_packs,
             .workspace = forward_workspace,
             .launch = launch_packs},
            {.name = "taps",
             .rank = 20,
             .why_not = why_not_taps,
             .workspace = forward_workspace,
             .launch = launch_by_taps},
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, resize_backward, ResizeBackwardArgs,
            {.name = "packs",
             .rank = 30,
             .why_not = why_not_backward_packs,
             .workspace = backward_workspace,
             .launch = launch_backward_packs},
            {.name = "taps",
             .rank = 20,
             .why_not = why_not_backward_taps,
             .workspace = backward_workspace,
             .launch = launch_backward_by_taps},
            {.name = "naive", .rank = 10, .launch = launch_backward_naive});

}  // namespace wt
