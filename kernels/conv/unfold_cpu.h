// The variant of kernels/conv/unfold.cpp with threads (unfold_cpu.cpp).
#pragma once
#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/unfold.h"

namespace wt {

// The reference's loops, which kernels/conv/unfold.cpp defines.
AxisLoops<2> unfold_loops(const UnfoldBackwardArgs& a);
void unfold_backward_part(const UnfoldBackwardArgs& a, const AxisLoops<2>& l, const AxisPart& p);

void unfold_backward_threaded(const UnfoldBackwardArgs& a, const Launch& l);

}  // namespace wt
