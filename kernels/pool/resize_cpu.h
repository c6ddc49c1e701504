// The variants of kernels/pool/resize.cpp with threads (resize_cpu.cpp).
#pragma once
#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/resize.h"

namespace wt {

// The reference's loops, which kernels/pool/resize.cpp defines: begin() fills the workspace.
i64 resize_workspace(const ResizeArgs& a);
AxisLoops<2> resize_begin(const ResizeArgs& a, void* workspace);
void resize_part(const ResizeArgs& a, const void* workspace, const AxisLoops<2>& l,
                 const AxisPart& p);
i64 resize_backward_workspace(const ResizeBackwardArgs& a);
AxisLoops<2> resize_backward_begin(const ResizeBackwardArgs& a, void* workspace);
void resize_backward_part(const ResizeBackwardArgs& a, const void* workspace, const AxisLoops<2>& l,
                          const AxisPart& p);

void resize_threaded(const ResizeArgs& a, const Launch& l);
void resize_backward_threaded(const ResizeBackwardArgs& a, const Launch& l);

}  // namespace wt
