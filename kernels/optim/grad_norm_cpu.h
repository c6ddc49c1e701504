// The fast variant of kernels/optim/grad_norm.cpp (optim/grad_norm_cpu.cpp): f32, with AVX2 and
// threads.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/grad_norm.h"

namespace wt {

const char* grad_norm_why_not(const GradNormArgs& a);
void grad_norm_avx2(const GradNormArgs& a, const Launch& l);

}  // namespace wt
