// The gradient of windows that overlap, on simt and cuda. Each element adds what its windows say,
// in their order: nothing is added twice to one place, so there are no atomics.
//   naive   one thread an element, coordinates by 64-bit divisions
//   narrow  the same with coordinates by 32-bit multiplications
//   packs   the elements of a thread have the same windows: 16 bytes of neighbours where those lie
//           beside each other in the windows too (size and step are whole packs), else the same
//           place of four lines
#include "warptape/kernels/unfold.h"

#include "warptape/kernels/device/axis_walk.cuh"
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;

template <class T, class Map>
struct UnfoldBackward {
  T* gx;
  const T* gout;
  i64 size, step, windows;          // of a window; from one to the next; how many
  i64 window_stride, place_stride;  // in gout
  i64 numel;
  Map walk;
  i64 to_step = 0, from_step = 0;  // of the four lines of a thread: Together
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gout);
  }
};

// The windows [begin, end) of place i on the axis. Index: u32 where every coordinate fits.
template <class Index, class T, class Map>
__device__ __forceinline__ void windows_of(const UnfoldBackward<T, Map>& a, Index i, Index& begin,
                                           Index& end) {
  const Index step = Index(a.step), size = Index(a.size), last = i / step + 1;
  begin = i < size ? 0 : (i - size) / step + 1;
  end = last < Index(a.windows) ? last : Index(a.windows);
}
// Where place i is in window w of a line.
template <class Index, class T, class Map>
__device__ __forceinline__ i64 place_in(const UnfoldBackward<T, Map>& a, Index w, Index i) {
  return i64(w) * a.window_stride + i64(i - w * Index(a.step)) * a.place_stride;
}

template <class T, class Map, class Index>
__device__ __forceinline__ void add_windows(const UnfoldBackward<T, Map>& a, Index element) {
  typename Map::Offset at[kAxisOperands];
  a.walk.offsets(typename Map::Index(element), at);
  const Index i = Index(at[Place]);
  Index begin, end;
  windows_of(a, i, begin, end);
  const T* from = a.gout + at[From];
  ComputeType<T> sum = 0;
  for (Index w = begin; w < end; ++w) sum += ComputeType<T>(from[place_in(a, w, i)]);
  a.gx[at[To]] = T(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    unfold_backward_naive(const __grid_constant__ UnfoldBackward<T, IndexMap64<kAxisOperands>> a) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < a.numel; i += stride)
    add_windows(a, i);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    unfold_backward_narrow(const __grid_constant__ UnfoldBackward<T, IndexMap<kAxisOperands>> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i < a.numel) add_windows(a, u32(i));
}
template <class T, bool Packs>
__global__ void __launch_bounds__(kThreads)
    unfold_backward_packs(const __grid_constant__ UnfoldBackward<T, IndexMap<kAxisOperands>> a) {
  constexpr int kN = kTogether<T, Packs>;
  const i64 element = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= a.numel) return;
  i32 at[kAxisOperands];
  a.walk.offsets(u32(element), at);
  const u32 i = u32(at[Place]);
  u32 begin, end;
  windows_of(a, i, begin, end);
  float sum[kN] = {};
  T v[kN];
  for (u32 w = begin; w < end; ++w) {
    fetch_together<Packs>(v, a.gout + at[From] + place_in(a, w, i), a.from_step);
#pragma unroll
    for (int e = 0; e < kN; ++e) sum[e] += float(v[e]);
  }
#pragma unroll
  for (int e = 0; e < kN; ++e) v[e] = T(sum[e]);
  put_together<Packs>(a.gx + at[To], v, a.to_step);
}

// --- host side ---

template <class T, class Map>
UnfoldBackward<T, Map> kernel_of(const UnfoldBackwardArgs& a, const Map& map, i64 numel) {
  const int last = a.gout.ndim() - 1;
  const bool scalar = a.gx.ndim() == 0;
  return {a.gx.as<T>(),
          a.gout.as<const T>(),
          a.gout.size(last),
          a.step,
          scalar ? 1 : a.gout.size(a.axis),
          scalar ? 0 : a.gout.stride(a.axis),
          a.gout.stride(last),
          numel,
          map};
}
void launch_naive(const UnfoldBackwardArgs& a, const Launch& l) {
  const LoopNest<kAxisOperands> nest = axis_nest(a.gx, a.gout, a.axis);
  with_float_or_double(a.gx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<unfold_backward_naive<T>>(grid_of(l, ceil_div(nest.numel, kThreads), kThreads),
                                     kernel_of<T>(a, index_map_64(nest), nest.numel));
  });
}
const char* why_not_narrow(const UnfoldBackwardArgs& a) {
  if (a.gx.dtype() == DType::f64) return "f64 has the naive rung only";
  constexpr i64 kLimit = 1ll << 31;
  const bool fits =
      fits_32_bits(axis_nest(a.gx, a.gout, a.axis)) && a.gout.numel() < kLimit && a.step < kLimit;
  return fits ? nullptr : "elements and steps below 2^31 only";
}
void launch_narrow(const UnfoldBackwardArgs& a, const Launch& l) {
  const LoopNest<kAxisOperands> nest = axis_nest(a.gx, a.gout, a.axis);
  with_float(a.gx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<unfold_backward_narrow<T>>(grid_of(l, ceil_div(nest.numel, kThreads), kThreads),
                                      kernel_of<T>(a, index_map_32(nest), nest.numel));
  });
}

bool together(const UnfoldBackwardArgs& a, Together& t) {
  t.nest = axis_nest(a.gx, a.gout, a.axis);
  if (a.gx.ndim() == 0) return false;
  const i64 pack = 16 / item_size(a.gx.dtype());
  const int last = a.gout.ndim() - 1;
  // Places and windows are entered in whole packs, so that a pack's elements have the same windows.
  const i64 window = a.gout.stride(a.axis), place = a.gout.stride(last);
  const bool along =
      place == 1 && a.gout.size(last) % pack == 0 && a.step % pack == 0 && window % pack == 0;
  const bool beside = window % pack == 0 && place % pack == 0;
  return take_together(t, a.gx, a.gout, beside, along);
}
const char* why_not_packs(const UnfoldBackwardArgs& a) {
  Together t;
  if (const char* why = why_not_narrow(a)) return why;
  return together(a, t) ? nullptr : why_not_together();
}
void launch_packs(const UnfoldBackwardArgs& a, const Launch& l) {
  Together t;
  if (!together(a, t)) return;
  with_float(a.gx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto k = kernel_of<T>(a, index_map_32(t.nest), t.nest.numel);
    k.to_step = t.to_step, k.from_step = t.from_step;
    const Config c = grid_of(l, ceil_div(k.numel, kThreads), kThreads);
    t.packs ? launch<unfold_backward_packs<T, true>>(c, k)
            : launch<unfold_backward_packs<T, false>>(c, k);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, unfold_backward, UnfoldBackwardArgs,
            {.name = "packs", .rank = 30, .why_not = why_not_packs, .launch = launch_packs},
            {.name = "narrow", .rank = 20, .why_not = why_not_narrow, .launch = launch_narrow},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
