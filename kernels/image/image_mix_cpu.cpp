#include "warptape/kernels/image/image_mix_cpu.h"

#include <algorithm>

#include "warptape/kernels/cpu/pieces.h"

namespace wt {

void image_mix_rows(const ImageMixArgs& a, const Launch&) {
  in_row_pieces(a.count(), a.out.numel() / std::max<i64>(1, a.count()),
                [&](i64 begin, i64 end) { image_mix_samples(a, begin, end); });
  image_mix_targets(a);
}

}  // namespace wt
