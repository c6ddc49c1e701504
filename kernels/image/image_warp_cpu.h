// The fast code of kernels/image/image_warp.cpp's table.
#pragma once
#include "warptape/kernels/image_warp.h"

namespace wt {

// Samples [begin, end) of a launch, on this thread: kernels/image/image_warp.cpp.
void image_warp_samples(const ImageWarpArgs& a, i64 begin, i64 end);
void image_warp_rows(const ImageWarpArgs& a, const Launch& l);

}  // namespace wt
