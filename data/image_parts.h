// Internal to read_image(): the parts of it that lie in files of their own.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "warptape/data/image.h"

namespace wt::data::detail {

// Throws DataError, with `at` as the byte, for sizes beyond the limits.
void check_image_size(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                      const ParseLimits& limits);
// An uninitialised u8 [height, width, channels]; checks its size.
Tensor empty_image(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                   const ParseLimits& limits);

// As image_format(). Throws DataError for what is no image, before the rest is read.
ImageFormat require_image_format(const std::string& path, std::string_view head);
// Of a regular file that is no longer than an image file may be.
std::vector<u8> read_image_file(const std::string& path, const ParseLimits& limits);

// How the camera was held, 1 to 8, of as much as there is; 1 where the file does not say.
int image_orientation(std::span<const u8> bytes, ImageFormat format);

// Height, width and channels of a Netpbm file's header.
ImageInfo pnm_info(const std::string& path, std::span<const u8> bytes);

// `bytes` begin with the format's signature; `path` is for messages. The pixels as they are stored.
Tensor read_png(const std::string& path, std::span<const u8> bytes, const ImageOptions& o);
Tensor read_jpeg(const std::string& path, std::span<const u8> bytes, const ImageOptions& o);
Tensor read_webp(const std::string& path, std::span<const u8> bytes, const ImageOptions& o);

// Of what is to be written. Throws ShapeError unless it is [H, W, C], with C and sides that the
// format has, and DtypeError unless it is u8; gives it contiguous on the cpu.
Tensor pixels_to_write(const char* what, const Tensor& image, i64 channels, i64 longest_side);
// Throws UsageError unless it is in [least, 100].
void check_quality(const char* what, int quality, int least);

}  // namespace wt::data::detail
