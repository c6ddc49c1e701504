// Single images from files and into them.
#pragma once
#include <span>
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// The pixels of `path` as u8 [H, W, C], row by row from the top, on the cpu. The format is told by
// the content, not by the name:
//   PGM and PPM  plain and raw (P2, P3, P5, P6), C = 1 or 3; samples are scaled from the file's
//                maxval, at most 255, to 255 (https://netpbm.sourceforge.net/doc/pnm.html)
//   PNG          every kind: grey, grey and alpha, RGB, RGBA, palettes (as RGB), C = 1 to 4.
//                Transparency of a colour or of palette entries becomes an alpha channel; 16 bits
//                are rounded to 8; gamma is left alone. Needs libspng: else NotAvailable.
//   JPEG         baseline and progressive; grey: C = 1, colours: C = 3. CMYK and YCCK, Adobe's
//                inverted ones too, become RGB without colour management. Turned and mirrored as
//                its EXIF orientation says. Bytes behind the image are ignored, as cameras write
//                them. Needs libjpeg-turbo: else NotAvailable.
//   WebP         lossy and lossless, C = 3, or 4 with alpha; no animation. Needs libwebp: else
//                NotAvailable.
// Throws DataError with path and byte for other and damaged files, for bytes that belong to no
// pixel, and for images of more than 64 million pixels or limits.max_bytes bytes, or in files of
// more than 1 GiB. Gzip is not taken off.
WT_API Tensor read_image(const std::string& path, const ParseLimits& limits = {});
// The same of a file's content; `name` stands for the path in messages.
WT_API Tensor decode_image(std::span<const u8> bytes, const std::string& name,
                           const ParseLimits& limits = {});

// A PNG file of u8 [H, W, C], C = 1 to 4: grey, grey and alpha, RGB, RGBA. Throws ShapeError,
// DtypeError, NotAvailable without libspng; a file is written whole or not at all.
WT_API std::string png_of(const Tensor& image);
WT_API void write_png(const std::string& path, const Tensor& image);

}  // namespace wt::data
