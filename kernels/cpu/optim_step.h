// The fast variants of kernels/optim_step.cpp (cpu/optim_step.cpp): f32, with AVX2 and threads.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/optim_step.h"

namespace wt {

const char* sgd_step_why_not(const SgdStepArgs& a);
const char* adamw_step_why_not(const AdamwStepArgs& a);
void sgd_step_avx2(const SgdStepArgs& a, const Launch& l);
void adamw_step_avx2(const AdamwStepArgs& a, const Launch& l);

}  // namespace wt
