// Shapes and strides for operators that view, or that write into a part of their result. Internal.
#pragma once
#include <algorithm>

#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {

// y is what became of x: an rvalue x is emptied.
inline Tensor in_place_of(const In& x, Tensor y) {
  x.take();
  return y;
}

inline Geometry geometry_with(const Geometry& g, const Shape& shape, const Shape& strides) {
  Geometry r = g;
  r.ndim = u8(shape.ndim());
  for (int i = 0; i < shape.ndim(); ++i) r.shape[i] = shape[i], r.strides[i] = strides[i];
  finish_geometry(r);
  return r;
}

// Bounds as in Python: negative ones count from the end, then clipped.
inline Slice resolve_slice(const OpScope& s, Slice r, i64 size) {
  if (r.step < 1)
    throw ShapeError(
        str("[", s.info().name, "] the step must be at least 1, got ", r.step, s.at_line()));
  const auto clip = [&](i64 v) { return v < 0 ? std::max<i64>(v + size, 0) : std::min(v, size); };
  r.begin = clip(r.begin);
  r.end = std::max(clip(r.end), r.begin);
  return r;
}
// A step near 2^63 must not overflow the sum of the usual rounding up.
inline i64 slice_length(const Slice& r) {
  return r.end == r.begin ? 0 : (r.end - r.begin - 1) / r.step + 1;
}

// A part of a tensor under construction: geometry of its own, counted from its own first element.
struct Window {
  Geometry geometry;
  void* data;

  explicit Window(const View& whole) : geometry(*whole.geometry), data(whole.data) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  View view() const { return {data, &geometry}; }
  // Elements begin, begin + step, .. of an axis.
  void narrow(int axis, i64 begin, i64 length, i64 step = 1) {
    if (length > 0) move_along(axis, begin);
    geometry.shape[axis] = length;
    if (length > 1) geometry.strides[axis] *= step;  // else it may be too large to multiply
    finish_geometry(geometry);
  }
  // To element `count` of an axis. Where there is none the first has no place, and strides are of
  // any size.
  void move_along(int axis, i64 count) {
    if (data && geometry.numel > 0)
      data = static_cast<char*>(data) + count * geometry.strides[axis] * item_size(geometry.dtype);
  }
};

// A fresh tensor of `shape` whose axes lie in memory in the order of operand i's (NHWC stays NHWC).
inline Result result_ordered_like(const OpScope& s, int i, const Shape& shape) {
  Result y = s.result(shape, s.dtype(i));
  const Geometry& from = s.geometry(i);
  if (from.dense || from.ndim != shape.ndim() || !is_permuted_dense(from)) return y;
  int order[kMaxDims];
  for (int d = 0; d < from.ndim; ++d) order[d] = d;
  std::stable_sort(order, order + from.ndim,
                   [&](int a, int b) { return from.strides[a] > from.strides[b]; });
  Geometry& g = y.impl()->geometry;
  i64 stride = 1;
  for (int d = from.ndim; d-- > 0;) {
    g.strides[order[d]] = stride;
    stride *= std::max<i64>(g.shape[order[d]], 1);
  }
  finish_geometry(g);
  return y;
}

inline bool shares_storage(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}
// A result that the user may write to: never a view of the operand.
inline Tensor own_copy(Tensor y, const Tensor& x) { return shares_storage(y, x) ? clone(y) : y; }

}  // namespace wt
