// The fast variants of kernels/norm/layer_norm.cpp (norm/layer_norm_cpu.cpp): f32 rows of
// neighbours, with AVX2.
#pragma once
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/norm/norm_why_not_cpu.h"

namespace wt {

void layer_norm_forward_avx2(const LayerNormForwardArgs& a, const Launch& l);
void layer_norm_backward_input_avx2(const LayerNormBackwardInputArgs& a, const Launch& l);
i64 layer_norm_backward_params_workspace(const LayerNormBackwardParamsArgs& a);
void layer_norm_backward_params_avx2(const LayerNormBackwardParamsArgs& a, const Launch& l);

// Rows [begin, end) of the first two, by the calling thread. gsum, of gx's shape, is added where it
// is given.
void layer_norm_forward_rows(const LayerNormForwardArgs& a, i64 begin, i64 end);
void layer_norm_backward_input_rows(const LayerNormBackwardInputArgs& a, const View& gsum,
                                    i64 begin, i64 end);

}  // namespace wt
