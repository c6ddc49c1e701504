// Internal to the readers of images: what the markers before a JPEG file's first scan say.
#pragma once
#include <span>

#include "warptape/core/types.h"

namespace wt::data::detail {

struct JpegMarkers {
  int orientation = 1;  // EXIF's, 1 to 8
  bool adobe = false;   // whose CMYK is inverted
  bool frame = false;   // the next three are known
  u64 height = 0, width = 0;
  int components = 0;
};

// Of as many whole segments as `bytes`, which begin with the start of the image, have.
JpegMarkers jpeg_markers(std::span<const u8> bytes);

}  // namespace wt::data::detail
