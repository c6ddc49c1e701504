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

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
