// The variants of kernels/index/gather.cpp with threads (gather_cpu.cpp).
#pragma once
#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/gather.h"

namespace wt {

// The reference's loops, which kernels/index/gather.cpp defines. begin(): false where nothing is to
// be done, because there is nothing or because an index is bad.
bool gather_begin(const GatherArgs& a);
AxisLoops<3> gather_loops(const GatherArgs& a);
void gather_part(const GatherArgs& a, const AxisLoops<3>& l, const AxisPart& p);
i64 scatter_workspace(const ScatterArgs& a);
bool scatter_begin(const ScatterArgs& a, void* workspace);
AxisLoops<3> scatter_loops(const ScatterArgs& a);
void scatter_part(const ScatterArgs& a, void* workspace, const AxisLoops<3>& l, const AxisPart& p);
void scatter_end(const ScatterArgs& a, void* workspace);

void gather_threaded(const GatherArgs& a, const Launch& l);
void scatter_threaded(const ScatterArgs& a, const Launch& l);

}  // namespace wt
