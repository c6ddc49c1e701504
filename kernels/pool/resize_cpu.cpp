// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include "warptape/kernels/pool/resize_cpu.h"
#include "warptape/kernels/cpu/axis_parts.h"

namespace wt {

void resize_threaded(const ResizeArgs& a, const Launch& launch) {
  if (a.out.numel() == 0) return;
  const AxisLoops<2> l = resize_begin(a, launch.workspace);
  in_axis_parts(l, a.out.numel(),
                [&](const AxisPart& p) { resize_part(a, launch.workspace, l, p); });
}
void resize_backward_threaded(const ResizeBackwardArgs& a, const Launch& launch) {
  if (a.gin.numel() == 0) return;
  const AxisLoops<2> l = resize_backward_begin(a, launch.workspace);
  in_axis_parts(l, a.gout.numel(),
                [&](const AxisPart& p) { resize_backward_part(a, launch.workspace, l, p); });
}

}  // namespace wt
