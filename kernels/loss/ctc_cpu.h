// The variants of kernels/loss/ctc.cpp with threads (ctc_cpu.cpp).
#pragma once
#include "warptape/kernels/ctc.h"

namespace wt {

// The reference's loops over samples, which kernels/loss/ctc.cpp defines.
void ctc_forward_samples(const CtcForwardArgs& a, i64 begin, i64 end);
void ctc_add_losses(const CtcForwardArgs& a);  // and looks whether the labels are classes
i64 ctc_backward_workspace(const CtcBackwardArgs& a);
void ctc_backward_samples(const CtcBackwardArgs& a, void* workspace, i64 begin, i64 end);

void ctc_forward_threaded(const CtcForwardArgs& a, const Launch& l);
void ctc_backward_threaded(const CtcBackwardArgs& a, const Launch& l);

}  // namespace wt
