// Internal to image folders and to what shows a model pictures as they do: one decoded image to a
// size, on the cpu.
#pragma once
#include "warptape/core/types.h"

namespace wt::data::detail {

// A part of an image in pixels; its borders may lie within them.
struct ImageBox {
  double top = 0, left = 0, height = 0, width = 0;
};
// The largest box of the shape height x width (or all of it) in the middle of an image.
WT_API ImageBox middle_box(i64 image_height, i64 image_width, i64 height, i64 width,
                           bool keep_aspect);

// The box of u8 [height, width, channels] as u8 [channels, to_height, to_width]: bilinear, and
// where it becomes smaller a triangle as wide as two pixels of the result (PyTorch's
// antialias=True, PIL's BILINEAR), rounded once. Equal sizes are an exact copy.
WT_API void resample(const u8* from, i64 height, i64 width, i64 channels, const ImageBox& box,
                     u8* to, i64 to_height, i64 to_width);

}  // namespace wt::data::detail
