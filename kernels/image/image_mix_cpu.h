// The fast code of kernels/image/image_mix.cpp's table.
#pragma once
#include "warptape/kernels/image_mix.h"

namespace wt {

// Images [begin, end) of a launch, on this thread; all soft labels: kernels/image/image_mix.cpp.
void image_mix_samples(const ImageMixArgs& a, i64 begin, i64 end);
void image_mix_targets(const ImageMixArgs& a);
void image_mix_rows(const ImageMixArgs& a, const Launch& l);

}  // namespace wt
