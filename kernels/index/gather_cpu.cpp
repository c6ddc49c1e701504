// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include "warptape/kernels/index/gather_cpu.h"
#include "warptape/kernels/cpu/axis_parts.h"

namespace wt {

void gather_threaded(const GatherArgs& a, const Launch&) {
  if (!gather_begin(a)) return;
  const AxisLoops<3> l = gather_loops(a);
  in_axis_parts(l, a.out.numel(), [&](const AxisPart& p) { gather_part(a, l, p); });
}

void scatter_threaded(const ScatterArgs& a, const Launch& launch) {
  if (!scatter_begin(a, launch.workspace)) return;
  const AxisLoops<3> l = scatter_loops(a);
  in_axis_parts(l, a.source.numel(),
                [&](const AxisPart& p) { scatter_part(a, launch.workspace, l, p); });
  scatter_end(a, launch.workspace);
}

}  // namespace wt
