// Rows of 16-bit floats to and from f32 on the cpu, as fast as the machine does it.
#pragma once
#include "warptape/core/half.h"

namespace wt::detail {

void convert_row(float* out, const Half* in, i64 n);
void convert_row(float* out, const BFloat16* in, i64 n);
void convert_row(Half* out, const float* in, i64 n);
void convert_row(BFloat16* out, const float* in, i64 n);

}  // namespace wt::detail
