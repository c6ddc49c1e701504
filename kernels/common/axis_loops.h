// Loops for cpu kernels in which one axis has a role of its own and may differ in length between
// the operands (gather, scatter, resize). Three loops, outermost first: `outer` over all other axes
// but one, then the axis, then `inner` over the axis that lies closest in operand 0's memory;
// inner is 1 where that is the axis itself. For a fixed place in the other axes the axis is walked
// in ascending order, whatever the layout and however the work is shared among threads.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

template <int N>
struct AxisLoops {
  Rows<N> rows;  // its axes count `outer` only
  i64 outer = 1, inner = 1;
  i64 inner_step[N] = {};
  i64 axis_step(int k) const { return rows.step[k]; }
  i64 start(int k, i64 o) const { return rows.start(k, o); }
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

// Calls f(outer_begin, outer_end, inner_begin, inner_end) for parts that cover everything once, on
// as many threads as `elements` of work are worth.
template <int N, class F>
void share_axis_loops(const AxisLoops<N>& l, i64 elements, F&& f) {
  constexpr i64 kElementsAThread = 1 << 15, kInnerBlock = 64;
  const int threads = int(std::min<i64>(num_threads(), elements / kElementsAThread + 1));
  if (threads <= 1) return f(i64(0), l.outer, i64(0), l.inner);
  const bool by_outer = l.outer >= 4 * threads || l.inner < 2 * kInnerBlock;
  const i64 units = by_outer ? l.outer : (l.inner + kInnerBlock - 1) / kInnerBlock;
  const int tasks = int(std::min<i64>(units, 4 * threads));
  parallel(threads, tasks, [&](int task, int) {
    const i64 begin = units * task / tasks, end = units * (task + 1) / tasks;
    if (by_outer)
      f(begin, end, i64(0), l.inner);
    else
      f(i64(0), l.outer, begin * kInnerBlock, std::min(end * kInnerBlock, l.inner));
  });
}

}  // namespace wt
