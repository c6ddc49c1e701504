// Loops of common/axis_loops.h on several threads.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

// Calls f(part) for parts that cover everything once, on as many threads as `elements` of work are
// worth.
template <int N, class F>
void in_axis_parts(const AxisLoops<N>& l, i64 elements, const F& f) {
  constexpr i64 kElementsAThread = 1 << 15, kInnerBlock = 64;
  const int threads = int(std::min<i64>(num_threads(), elements / kElementsAThread + 1));
  if (threads <= 1) return f(l.all());
  const bool by_outer = l.outer >= 4 * threads || l.inner < 2 * kInnerBlock;
  const i64 units = by_outer ? l.outer : (l.inner + kInnerBlock - 1) / kInnerBlock;
  const int tasks = int(std::min<i64>(units, 4 * threads));
  parallel(threads, tasks, [&](int task, int) {
    const i64 begin = units * task / tasks, end = units * (task + 1) / tasks;
    if (by_outer)
      f(AxisPart{begin, end, 0, l.inner});
    else
      f(AxisPart{0, l.outer, begin * kInnerBlock, std::min(end * kInnerBlock, l.inner)});
  });
}

}  // namespace wt
