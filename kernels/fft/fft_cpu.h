// The cpu's fast Fourier transforms, for the list in kernels/fft/fft.cpp.
#pragma once
#include "warptape/kernels/fft.h"

namespace wt {

i64 fft_stages_workspace(const FftArgs& a);
void fft_stages(const FftArgs& a, const Launch& l);

}  // namespace wt
