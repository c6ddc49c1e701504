// The vector code of kernels/random/random_fill.cpp's table.
#pragma once
#include "warptape/kernels/random_fill.h"

namespace wt {

void random_fill_vector(const RandomFillArgs& a, const Launch& l);

}  // namespace wt
