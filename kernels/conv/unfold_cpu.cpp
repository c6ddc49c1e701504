// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include "warptape/kernels/conv/unfold_cpu.h"
#include "warptape/kernels/cpu/axis_parts.h"

namespace wt {

void unfold_backward_threaded(const UnfoldBackwardArgs& a, const Launch&) {
  if (a.gx.numel() == 0) return;
  const AxisLoops<2> l = unfold_loops(a);
  in_axis_parts(l, a.gout.numel(), [&](const AxisPart& p) { unfold_backward_part(a, l, p); });
}

}  // namespace wt
