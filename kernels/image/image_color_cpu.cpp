#include "warptape/kernels/image/image_color_cpu.h"

#include <algorithm>

#include "warptape/kernels/cpu/pieces.h"

namespace wt {

void image_color_rows(const ImageColorArgs& a, const Launch&) {
  in_row_pieces(a.count(), a.images.numel() / std::max<i64>(1, a.count()),
                [&](i64 begin, i64 end) { image_color_samples(a, begin, end); });
}

}  // namespace wt
