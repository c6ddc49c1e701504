// The fast variants of kernels/norm/add_norm.cpp (norm/add_norm_cpu.cpp): f32 rows of neighbours,
// with AVX2.
#pragma once
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/norm/norm_why_not_cpu.h"

namespace wt {

void add_layer_norm_forward_avx2(const AddLayerNormForwardArgs& a, const Launch& l);
void add_layer_norm_backward_input_avx2(const AddLayerNormBackwardInputArgs& a, const Launch& l);
void add_rms_norm_forward_avx2(const AddRmsNormForwardArgs& a, const Launch& l);
void add_rms_norm_backward_input_avx2(const AddRmsNormBackwardInputArgs& a, const Launch& l);

}  // namespace wt
