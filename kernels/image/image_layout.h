// The two orders in which the pixels of [N, C, H, W] may lie without gaps. No STL: kernels include
// this.
#pragma once
#include "warptape/core/geometry.h"

namespace wt {

enum class ImageLayout : u8 { other, contiguous, channels_last };

inline ImageLayout image_layout(const View& v) {
  if (v.dense()) return ImageLayout::contiguous;
  const i64 c = v.size(1), h = v.size(2), w = v.size(3);
  const i64 strides[] = {c * h * w, 1, c * w, c};
  for (int k = 0; k < 4; ++k)
    if (v.size(k) > 1 && v.stride(k) != strides[k]) return ImageLayout::other;
  return ImageLayout::channels_last;
}

}  // namespace wt
