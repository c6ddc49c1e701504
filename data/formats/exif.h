// Internal to the readers of images: how a camera was held, as EXIF says it.
#pragma once
#include <span>

#include "warptape/core/tensor.h"

namespace wt::data::detail {

// The orientation in a TIFF header's first directory, 1 to 8; 1 where it says none. What some
// writers put before the header, "Exif\0\0", is passed over.
int exif_orientation(std::span<const u8> bytes);

// An image [H, W, C] on the cpu as a camera of this orientation meant it.
Tensor turned(const Tensor& image, int orientation);

}  // namespace wt::data::detail
