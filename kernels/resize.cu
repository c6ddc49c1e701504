// Resizing along one axis on simt and cuda.
//   naive  one thread an element; where it reads is computed for each, in f64
//   taps   a first kernel writes down where every output of the axis reads, once for all lines;
//          four elements a thread, whose coordinates are multiplications instead of 64-bit
//          divisions and whose loads are under way together
#include "warptape/kernels/resize.h"

#include "warptape/kernels/device/axis_walk.cuh"
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr int kBatch = 4;
using Tap = ResizeMap::Tap;

// --- the axis ---

// low never falls, so that the outputs that read input j are those whose low is j - 1 or j: from
// first[j - 1] up to first[j], and from there up to first[j + 1].
struct Axis {
  ResizeMap map;
  Tap* taps;   // null: computed where they are wanted
  i64* first;  // [in + 2]: the first output whose low is not below j
  template <class F>
  void visit_pointers(F&& f) const {
    f(taps), f(first);
  }
  __device__ __forceinline__ Tap tap(i64 i) const { return taps ? taps[i] : map(i); }
  __device__ __forceinline__ i64 first_at(i64 j) const {
    i64 begin = 0, end = map.out;
    while (begin < end) {
      const i64 middle = begin + (end - begin) / 2;
      if (tap(middle).low < j)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
};

__global__ void __launch_bounds__(kThreads) resize_taps(Axis axis) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < axis.map.out; i += stride)
    axis.taps[i] = axis.map(i);
}
__global__ void __launch_bounds__(kThreads) resize_first(Axis axis) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 j = i64(blockIdx.x) * kThreads + threadIdx.x; j < axis.map.in + 2; j += stride)
    axis.first[j] = axis.first_at(j);
}

// --- forward ---

template <class T, class Map>
struct Resize {
  T* to;
  const T* from;
  Axis axis;
  i64 step;  // of `from` along the axis
  i64 numel;
  Map walk;
  template <class F>
  void visit_pointers(F&& f) const {
    f(to), f(from);
    axis.visit_pointers(f);
  }
};

template <class T>
__device__ __forceinline__ T between(const T* line, const Tap& t, i64 step) {
  using A = ComputeType<T>;
  const T* at = line + t.low * step;
  if (t.weight == 0) return *at;  // the next one may be none, or not finite
  return T(A(1 - t.weight) * A(at[0]) + A(t.weight) * A(at[step]));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_naive(const __grid_constant__ Resize<T, IndexMap64<kAxisOperands>> a) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < a.numel; i += stride) {
    i64 at[kAxisOperands];
    a.walk.offsets(i, at);
    a.to[at[To]] = between(a.from + at[From], a.axis.map(at[Place]), a.step);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_by_taps(const __grid_constant__ Resize<T, IndexMap<kAxisOperands>> a) {
  // A thread's elements are a block apart, so that in each turn lanes are neighbours.
  const i64 first = i64(blockIdx.x) * (kThreads * kBatch) + threadIdx.x;
  i32 at[kBatch][kAxisOperands];
  Tap tap[kBatch];
  T value[kBatch];
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) {
      a.walk.offsets(u32(first + k * kThreads), at[k]);
      tap[k] = a.axis.taps[at[k][Place]];
    }
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) value[k] = between(a.from + at[k][From], tap[k], a.step);
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) a.to[at[k][To]] = value[k];
}

// --- backward ---

// The sum over the outputs that read input j, in their order.
template <class T>
__device__ __forceinline__ T pulled(const T* line, i64 begin, i64 own, i64 end, const Axis& axis,
                                    i64 step) {
  using A = ComputeType<T>;
  A sum = 0;
  for (i64 i = begin; i < own; ++i) sum += A(axis.tap(i).weight) * A(line[i * step]);
  for (i64 i = own; i < end; ++i) sum += A(1 - axis.tap(i).weight) * A(line[i * step]);
  return T(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    resize_backward_naive(const __grid_constant__ Resize<T, IndexMap64<kAxisOperands>> a) {
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
    resize_backward_by_taps(const __grid_constant__ Resize<T, IndexMap<kAxisOperands>> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  i32 at[kAxisOperands];
  a.walk.offsets(u32(i), at);
  const i64* first = a.axis.first + at[Place];
  a.to[at[To]] =
      pulled(a.from + at[From], at[Place] == 0 ? 0 : first[-1], first[0], first[1], a.axis, a.step);
}

// --- host side ---

i64 taps_bytes(const ResizeMap& map) { return map.out * i64(sizeof(Tap)); }
Axis axis_of(const ResizeMap& map, void* workspace) {
  Tap* const taps = static_cast<Tap*>(workspace);
  return {map, taps, reinterpret_cast<i64*>(taps + map.out)};
}
i64 forward_workspace(const ResizeArgs& a) { return a.out.numel() ? taps_bytes(a.map) : 0; }
i64 backward_workspace(const ResizeBackwardArgs& a) {
  return a.gin.numel() ? taps_bytes(a.map) + (a.map.in + 2) * i64(sizeof(i64)) : 0;
}
Config thread_each(const Launch& l, i64 n) { return grid_of(l, ceil_div(n, kThreads), kThreads); }

// `first`: of a part of the walk, where its operands begin.
template <class T, class Map>
Resize<T, Map> kernel_of(const View& to, const View& from, int axis, const Axis& on, i64 numel,
                         const Map& walk, const i64 (&first)[kAxisOperands]) {
  return {to.as<T>() + first[To],
          from.as<const T>() + first[From],
          on,
          axis_step(from, axis),
          numel,
          walk};
}

void launch_naive(const ResizeArgs& a, const Launch& l) {
  const LoopNest<kAxisOperands> nest = axis_nest(a.out, a.in, a.axis);
  with_float_or_double(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<resize_naive<T>>(
        thread_each(l, nest.numel),
        kernel_of<T>(a.out, a.in, a.axis, {a.map, {}, {}}, nest.numel, index_map_64(nest), {}));
  });
}
void launch_backward_naive(const ResizeBackwardArgs& a, const Launch& l) {
  const LoopNest<kAxisOperands> nest = axis_nest(a.gin, a.gout, a.axis);
  with_float_or_double(a.gin.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<resize_backward_naive<T>>(
        thread_each(l, nest.numel),
        kernel_of<T>(a.gin, a.gout, a.axis, {a.map, {}, {}}, nest.numel, index_map_64(nest), {}));
  });
}

void launch_by_taps(const ResizeArgs& a, const Launch& l) {
  if (a.out.numel() == 0) return;
  const Axis axis = axis_of(a.map, l.workspace);
  launch<resize_taps>(thread_each(l, a.map.out), axis);
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Nest = LoopNest<kAxisOperands>;
    const i64 zero[kAxisOperands] = {};
    for_each_part(
        axis_nest(a.out, a.in, a.axis), zero, 0,
        [&](const Nest& nest, const i64(&first)[kAxisOperands], i64) {
          Axis part = axis;
          part.taps += first[Place];  // its places count from its first one
          launch<resize_by_taps<T>>(
              grid_of(l, ceil_div(nest.numel, kThreads * kBatch), kThreads),
              kernel_of<T>(a.out, a.in, a.axis, part, nest.numel, index_map_32(nest), first));
        });
  });
}
void launch_backward_by_taps(const ResizeBackwardArgs& a, const Launch& l) {
  if (a.gin.numel() == 0) return;
  const Axis axis = axis_of(a.map, l.workspace);
  launch<resize_taps>(thread_each(l, a.map.out), axis);
  launch<resize_first>(thread_each(l, a.map.in + 2), axis);
  const LoopNest<kAxisOperands> nest = axis_nest(a.gin, a.gout, a.axis);
  with_float(a.gin.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<resize_backward_by_taps<T>>(
        thread_each(l, nest.numel),
        kernel_of<T>(a.gin, a.gout, a.axis, axis, nest.numel, index_map_32(nest), {}));
  });
}

const char* why_not_double(DType t) {
  return t == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
const char* why_not_taps(const ResizeArgs& a) { return why_not_double(a.out.dtype()); }
const char* why_not_backward_taps(const ResizeBackwardArgs& a) {
  if (const char* why = why_not_double(a.gin.dtype())) return why;
  return fits_32_bits(axis_nest(a.gin, a.gout, a.axis)) ? nullptr : "elements below 2^31 only";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, resize, ResizeArgs,
            {.name = "taps",
             .rank = 20,
             .why_not = why_not_taps,
             .workspace = forward_workspace,
             .launch = launch_by_taps},
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, resize_backward, ResizeBackwardArgs,
            {.name = "taps",
             .rank = 20,
             .why_not = why_not_backward_taps,
             .workspace = backward_workspace,
             .launch = launch_backward_by_taps},
            {.name = "naive", .rank = 10, .launch = launch_backward_naive});

}  // namespace wt
