// The fast variants of kernels/loss/mse.cpp (loss/mse_cpu.cpp): dense f32, with AVX2.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/mse.h"

namespace wt {

const char* mse_forward_why_not(const MseForwardArgs& args);
const char* mse_backward_why_not(const MseBackwardArgs& args);
void mse_forward_avx2(const MseForwardArgs& args, const Launch& l);
void mse_backward_avx2(const MseBackwardArgs& args, const Launch& l);

}  // namespace wt
