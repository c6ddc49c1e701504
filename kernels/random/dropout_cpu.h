// The fast variant of kernels/random/dropout.cpp (random/dropout_cpu.cpp): dense operands, with the
// widest vectors that the processor has.
#pragma once
#include "warptape/kernels/dropout.h"

namespace wt {

const char* dropout_why_not(const DropoutArgs& a);
void dropout_vectorized(const DropoutArgs& a, const Launch& l);

}  // namespace wt
