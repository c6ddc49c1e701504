// The fast variants of kernels/norm/rms_norm.cpp (norm/rms_norm_cpu.cpp): f32 rows of neighbours,
// with AVX2.
#pragma once
#include "warptape/kernels/norm/norm_why_not_cpu.h"
#include "warptape/kernels/rms_norm.h"

namespace wt {

void rms_norm_forward_avx2(const RmsNormForwardArgs& a, const Launch& l);
void rms_norm_backward_input_avx2(const RmsNormBackwardInputArgs& a, const Launch& l);

// Rows [begin, end), by the calling thread. gsum, of gx's shape, is added where it is given.
void rms_norm_forward_rows(const RmsNormForwardArgs& a, i64 begin, i64 end);
void rms_norm_backward_input_rows(const RmsNormBackwardInputArgs& a, const View& gsum, i64 begin,
                                  i64 end);

}  // namespace wt
