// The fast code of kernels/image/image_color.cpp's table.
#pragma once
#include "warptape/kernels/image_color.h"

namespace wt {

// Samples [begin, end) of a launch, on this thread: kernels/image/image_color.cpp.
void image_color_samples(const ImageColorArgs& a, i64 begin, i64 end);
void image_color_rows(const ImageColorArgs& a, const Launch& l);

}  // namespace wt
