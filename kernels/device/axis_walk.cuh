// Kernels in which one axis differs in length between the operands (resize, unfold): a walk over
// the elements of `to`, of which each knows its place on the axis and where the line of `from`
// begins that it is made of.
#pragma once
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// From: the line's first element. Place: the element's number on the axis.
enum { To, From, Place, kAxisOperands };

inline i64 axis_step(const View& v, int axis) { return v.ndim() == 0 ? 0 : v.stride(axis); }

// In the order of to's memory: writes are in a row whatever its layout. `from` may have axes behind
// those of `to`.
inline LoopNest<kAxisOperands> axis_nest(const View& to, const View& from, int axis) {
  Geometry line = *to.geometry, place = line;
  for (int d = 0; d < line.ndim; ++d) {
    line.strides[d] = d == axis ? 0 : from.stride(d);
    place.strides[d] = d == axis ? 1 : 0;
  }
  return loop_nest<kAxisOperands>({to, {from.data, &line}, {nullptr, &place}}, LoopOrder::memory);
}

// --- several elements a thread, at one place of the axis ---

// Neighbours in memory, a pack of 16 bytes (Packs); else four whose lines lie to_step and from_step
// elements apart, while neighbouring lanes go on along the innermost dimension.
template <class T, bool Packs>
constexpr int kTogether = Packs ? kPerPack<T> : 4;

template <bool Packs, int N, class T>
__device__ __forceinline__ void fetch_together(T (&v)[N], const T* from, i64 step) {
  if constexpr (Packs) {
    load_vector(v, from);
  } else {
#pragma unroll
    for (int e = 0; e < N; ++e) v[e] = from[e * step];
  }
}
template <bool Packs, int N, class T>
__device__ __forceinline__ void put_together(T* to, const T (&v)[N], i64 step) {
  if constexpr (Packs) {
    store_vector(to, v);
  } else {
#pragma unroll
    for (int e = 0; e < N; ++e) to[e * step] = v[e];
  }
}

// A walk from the first of each such group to the next.
struct Together {
  LoopNest<kAxisOperands> nest;
  bool packs = false;
  i64 to_step = 0, from_step = 0;
};

// The innermost dimension in packs, as far as the walk goes: how lines are entered is the kernel's.
inline bool in_packs(const LoopNest<kAxisOperands>& nest, const View& to, const View& from,
                     i64 pack) {
  bool whole = nest.ndim > 0 && nest.size[0] % pack == 0 && nest.stride[To][0] == 1 &&
               aligned_16(to.data) && aligned_16(from.data);
  for (int d = 1; d < nest.ndim; ++d)
    whole &= nest.stride[To][d] % pack == 0 && nest.stride[From][d] % pack == 0;
  return whole;
}
inline void step_over(LoopNest<kAxisOperands>& nest, int d, i64 n) {
  nest.numel /= n, nest.size[d] /= n;
  for (int k = 0; k < kAxisOperands; ++k) nest.stride[k][d] *= n;
}

// False: neither is to be had. `beside`: of a line that is entered at 16 bytes, every element that
// the kernel reads is; `along`: packs of neighbours on the axis are read as packs, too.
inline bool take_together(Together& t, const View& to, const View& from, bool beside, bool along) {
  LoopNest<kAxisOperands>& nest = t.nest;
  const i64 pack = 16 / item_size(to.dtype());
  if (in_packs(nest, to, from, pack))
    t.packs = nest.stride[Place][0] == 0 ? beside && nest.stride[From][0] == 1 : along;
  if (t.packs) {
    step_over(nest, 0, pack);
    return true;
  }
  constexpr i64 kLines = 4;
  for (int d = 1; d < nest.ndim; ++d)
    if (nest.stride[Place][d] == 0 && nest.size[d] % kLines == 0) {
      t.to_step = nest.stride[To][d], t.from_step = nest.stride[From][d];
      step_over(nest, d, kLines);
      return true;
    }
  return false;
}
inline const char* why_not_together() {
  return "needs neighbours in packs of 16 bytes, or lines in fours";
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
