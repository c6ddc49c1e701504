// The fast variants of kernels/loss/cross_entropy.cpp (loss/cross_entropy_cpu.cpp): f32 logits
// whose classes are neighbours, with AVX2.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cross_entropy.h"

namespace wt {

const char* cross_entropy_forward_why_not(const CrossEntropyForwardArgs& a);
void cross_entropy_forward_avx2(const CrossEntropyForwardArgs& a, const Launch& l);
const char* cross_entropy_backward_why_not(const CrossEntropyBackwardArgs& a);
void cross_entropy_backward_avx2(const CrossEntropyBackwardArgs& a, const Launch& l);

}  // namespace wt
