// The fast variants of kernels/softmax/softmax.cpp (softmax/softmax_cpu.cpp): f32 rows of
// neighbours, with AVX2.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/softmax.h"

namespace wt {

const char* softmax_forward_why_not(const SoftmaxForwardArgs& a);
i64 softmax_forward_workspace(const SoftmaxForwardArgs& a);
void softmax_forward_avx2(const SoftmaxForwardArgs& a, const Launch& l);
const char* softmax_backward_why_not(const SoftmaxBackwardArgs& a);
void softmax_backward_avx2(const SoftmaxBackwardArgs& a, const Launch& l);

}  // namespace wt
