// What a side of kernels/fft.h holds, for the contract and for what its kernels share.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// What one side of a transform of length n holds along the axis.
enum class FftSide : u8 {
  complex,  // n numbers as pairs (real, imaginary), which are a further axis, the last, of size 2
  half,     // pairs too, but of the bins 0 to n / 2 alone
  real,     // n numbers; an imaginary part is not kept, or is 0
};

}  // namespace wt
