// The gradient of windows that overlap, on simt and cuda. Each element adds what its windows say,
// in their order: nothing is added twice to one place, so there are no atomics.
//   naive   one thread an element, coordinates by 64-bit divisions
//   narrow  the same with coordinates by 32-bit multiplications
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
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gout);
  }
};

// Index: u32 where every coordinate fits.
template <class T, class Map, class Index>
__device__ __forceinline__ void add_windows(const UnfoldBackward<T, Map>& a, Index element) {
  typename Map::Offset at[kAxisOperands];
  a.walk.offsets(typename Map::Index(element), at);
  const Index i = Index(at[Place]), step = Index(a.step), size = Index(a.size);
  const Index begin = i < size ? 0 : (i - size) / step + 1, last = i / step + 1;
  const Index end = last < Index(a.windows) ? last : Index(a.windows);
  const T* from = a.gout + at[From];
  ComputeType<T> sum = 0;
  for (Index w = begin; w < end; ++w)
    sum += ComputeType<T>(from[i64(w) * a.window_stride + i64(i - w * step) * a.place_stride]);
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

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, unfold_backward, UnfoldBackwardArgs,
            {.name = "narrow", .rank = 20, .why_not = why_not_narrow, .launch = launch_narrow},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
