// What standardising makes of each value of a pixel. Internal.
#pragma once
#include <array>
#include <cmath>

#include "warptape/core/types.h"

namespace wt::data::detail {

// (pixel / 255 - mean) / std as kernels/image_batch.h has it, a product and a sum rounded once, so
// that a batch has the same bits wherever it is made.
class PixelLevels {
 public:
  PixelLevels(float mean, float deviation) {
    const float scale = 1 / (255.0f * deviation), shift = -(mean / deviation);
    for (int v = 0; v < 256; ++v) levels_[size_t(v)] = std::fma(float(v), scale, shift);
  }
  float operator[](u8 pixel) const { return levels_[pixel]; }

 private:
  std::array<float, 256> levels_;
};

}  // namespace wt::data::detail
