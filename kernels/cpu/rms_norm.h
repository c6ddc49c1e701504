// The fast variants of kernels/rms_norm.cpp (cpu/rms_norm.cpp): f32 rows of neighbours, with AVX2.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/rms_norm.h"

namespace wt {

const char* rms_norm_forward_why_not(const RmsNormForwardArgs& a);
void rms_norm_forward_avx2(const RmsNormForwardArgs& a, const Launch& l);
const char* rms_norm_backward_input_why_not(const RmsNormBackwardInputArgs& a);
void rms_norm_backward_input_avx2(const RmsNormBackwardInputArgs& a, const Launch& l);

}  // namespace wt
