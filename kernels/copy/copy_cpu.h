// The fast variants of kernels/copy/copy.cpp (copy/copy_cpu.cpp): whole rows, one typed loop a pair
// of dtypes.
#pragma once
#include "warptape/kernels/copy.h"

namespace wt {

const char* copy_vectorized_why_not(const CopyArgs& a);
void copy_vectorized(const CopyArgs& a, const Launch& l);
void fill_vectorized(const FillArgs& a, const Launch& l);

}  // namespace wt
