// Initialisers: fill a tensor from the generator's init stream, drawn on the cpu so that every
// device starts from the same bits. They are not recorded.
#pragma once
#include "warptape/core/tensor.h"

namespace wt::nn::init {

// U[low, high).
WT_API void uniform_(const Tensor& t, double low = 0, double high = 1);
// N(mean, std^2).
WT_API void normal_(const Tensor& t, double mean = 0, double std = 1);
WT_API void constant_(const Tensor& t, double value);

}  // namespace wt::nn::init
