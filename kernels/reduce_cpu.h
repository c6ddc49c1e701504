// The cpu's fast reductions of floats (reduce_cpu.cpp).
#pragma once
#include "warptape/kernels/reduce.h"

namespace wt::detail {

void sum_vectorized(const SumArgs& a, const Launch& l);
void max_vectorized(const MaxArgs& a, const Launch& l);

}  // namespace wt::detail
