// A tensor as rows along one axis, for tensors of any strides: the other axes count the rows, and
// neighbours among them that lie evenly in every operand are merged, so that contiguous operands
// need one multiplication a row. No STL: device code includes this.
//
//   enum { Y, X };  // names the operands of rows_along, in its order
//   const auto rows = rows_along<2>(axis, {{a.y}, {a.x}});
//   const auto x = rows.row(X, pointer_to_x, r);  // x[r, :], whose elements are x[0], x[1], ...
#pragma once
#include "warptape/core/geometry.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// One row of an operand.
template <class T>
struct RowOf {
  T* data;
  i64 step;  // elements from one to the next; 1: neighbours, which may be read in packs from `data`
  WT_HD T& operator[](i64 i) const { return data[i * step]; }
};

template <int Operands>
struct Rows {
  i64 count = 1;   // rows
  i64 length = 1;  // elements a row
  int dims = 0;    // axes that count rows, outermost first
  i64 size[kMaxDims];
  i64 stride[Operands][kMaxDims];
  i64 step[Operands];  // from one element of a row to the next; 0 for operands without the axis

  // Where row `row` of operand k begins, in elements from the operand's first one.
  WT_HD i64 start(int k, i64 row) const {
    if (dims == 1) return row * stride[k][0];
    i64 at = 0;
    if (count <= 0xffffffffll) {  // then every size fits; 64-bit division is slow on a GPU
      u32 rest = u32(row);
      for (int d = dims; d-- > 0;) {
        at += i64(rest % u32(size[d])) * stride[k][d];
        rest /= u32(size[d]);
      }
      return at;
    }
    for (int d = dims; d-- > 0;) {
      at += row % size[d] * stride[k][d];
      row /= size[d];
    }
    return at;
  }
  // Row `row` of operand k, whose first element is at `operand`.
  template <class T>
  WT_HD RowOf<T> row(int k, T* operand, i64 row) const {
    return {operand + start(k, row), step[k]};
  }
  // The rows of operand k are runs of neighbouring elements.
  bool unit_step(int k) const { return step[k] == 1 || length <= 1; }
};

// One operand of rows_along. Operands without the axis (labels beside logits) have the other axes
// in the same order.
struct RowOperand {
  View view;
  bool has_axis = true;
};

// The first operand has the axis; all agree in shape. A 0-d operand is one row of one element.
template <int Operands>
Rows<Operands> rows_along(int axis, const RowOperand (&operands)[Operands]) {
  Rows<Operands> r;
  const Geometry& g = *operands[0].view.geometry;
  if (g.ndim > 0) r.length = g.shape[axis];
  for (int k = 0; k < Operands; ++k)
    r.step[k] = g.ndim > 0 && operands[k].has_axis ? operands[k].view.stride(axis) : 0;
  for (int d = 0, other = 0; d < g.ndim; ++d) {
    if (d == axis) continue;
    const int beside = other++;  // the dimension's place in operands without the axis
    r.count *= g.shape[d];
    if (g.shape[d] == 1) continue;
    i64 stride[Operands];
    bool merges = r.dims > 0;
    for (int k = 0; k < Operands; ++k) {
      stride[k] = operands[k].view.stride(operands[k].has_axis ? d : beside);
      if (merges) merges = r.stride[k][r.dims - 1] == stride[k] * g.shape[d];
    }
    if (merges)
      r.size[r.dims - 1] *= g.shape[d];
    else
      r.size[r.dims++] = g.shape[d];
    for (int k = 0; k < Operands; ++k) r.stride[k][r.dims - 1] = stride[k];
  }
  return r;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
