// Loops for cpu kernels in which one axis has a role of its own and may differ in length between
// the operands (gather, scatter, resize). Three loops, outermost first: `outer` over all other axes
// but one, then the axis, then `inner` over the axis that lies closest in operand 0's memory;
// inner is 1 where that is the axis itself. For a fixed place in the other axes the axis is walked
// in ascending order, whatever the layout and however the other loops are divided.
#pragma once
#include "warptape/kernels/common/rows.h"

namespace wt {

// What a call goes through of the outer and the inner loop.
struct AxisPart {
  i64 outer_begin, outer_end, inner_begin, inner_end;
};

template <int N>
struct AxisLoops {
  Rows<N> rows;  // its axes count `outer` only
  i64 outer = 1, inner = 1;
  i64 inner_step[N] = {};
  i64 axis_step(int k) const { return rows.step[k]; }
  i64 start(int k, i64 o) const { return rows.start(k, o); }
  AxisPart all() const { return {0, outer, 0, inner}; }
};

// The sizes of the other axes are operand 0's.
template <int N>
AxisLoops<N> axis_loops(int axis, const View (&views)[N]) {
  RowOperand operands[N];
  for (int k = 0; k < N; ++k) operands[k] = {views[k]};
  AxisLoops<N> l{rows_along<N>(axis, operands)};
  Rows<N>& r = l.rows;
  int nearest = -1;
  const auto distance = [](i64 step) { return step < 0 ? -step : step; };
  for (int d = 0; d < r.dims; ++d)
    if (nearest < 0 || distance(r.stride[0][d]) <= distance(r.stride[0][nearest])) nearest = d;
  if (nearest >= 0 && distance(r.stride[0][nearest]) < distance(r.step[0])) {
    l.inner = r.size[nearest];
    for (int k = 0; k < N; ++k) l.inner_step[k] = r.stride[k][nearest];
    --r.dims;
    for (int d = nearest; d < r.dims; ++d) {
      r.size[d] = r.size[d + 1];
      for (int k = 0; k < N; ++k) r.stride[k][d] = r.stride[k][d + 1];
    }
    r.count = l.inner == 0 ? 0 : r.count / l.inner;
  }
  l.outer = r.count;
  return l;
}

}  // namespace wt
