#include "warptape/kernels/image/image_warp_cpu.h"

#include <algorithm>

#include "warptape/kernels/cpu/pieces.h"

namespace wt {

void image_warp_rows(const ImageWarpArgs& a, const Launch&) {
  in_row_pieces(a.count(), a.out.numel() / std::max<i64>(1, a.count()),
                [&](i64 begin, i64 end) { image_warp_samples(a, begin, end); });
}

}  // namespace wt
