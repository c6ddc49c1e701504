// Single images from files and into them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

enum class ImageFormat { pnm, png, jpeg, webp };
WT_API const char* image_format_name(ImageFormat f);  // "PPM", "PNG", "JPEG", "WebP"
// What a file that begins so is, by at most 16 bytes.
WT_API std::optional<ImageFormat> image_format(std::string_view head);

struct ImageOptions {
  // false: as the pixels are stored.
  bool apply_orientation = true;
  // Both positive: a JPEG file that is at least twice as high and as wide is decoded at 1/2, 1/4 or
  // 1/8 of its size (rounded up), the least that is not below fast_height x fast_width. Several
  // times as fast, and not the pixels that resizing the whole image gives.
  i64 fast_height = 0, fast_width = 0;
  ParseLimits limits = {};
};

// The pixels of `path` as u8 [H, W, C], row by row from the top, on the cpu, turned and mirrored as
// EXIF's orientation says (in JPEG, in PNG's eXIf, in WebP; a whole number of any size and count,
// of which the first counts; XMP's is not looked at). The format is told by the content, not by the
// name:
//   PGM and PPM  plain and raw (P2, P3, P5, P6), C = 1 or 3; samples are scaled from the file's
//                maxval, at most 255, to 255 (https://netpbm.sourceforge.net/doc/pnm.html)
//   PNG          every kind: grey, grey and alpha, RGB, RGBA, palettes (as RGB), C = 1 to 4.
//                Transparency of a colour or of palette entries becomes an alpha channel; 16 bits
//                are rounded to 8; gamma is left alone. Needs libspng: else NotAvailable.
//   JPEG         baseline and progressive; grey: C = 1, colours: C = 3. CMYK and YCCK, Adobe's
//                inverted ones too, become RGB without colour management. Bytes behind the image
//                and between its markers are ignored, as cameras write them. Needs libjpeg-turbo:
//                else NotAvailable.
//   WebP         lossy and lossless, C = 3, or 4 with alpha; no animation. Needs libwebp: else
//                NotAvailable.
// Throws DataError with path and byte for other and damaged files, for bytes that belong to no
// pixel, and for images of more than 64 million pixels or limits.max_bytes bytes, or in files of
// more than 1 GiB. Gzip is not taken off.
WT_API Tensor read_image(const std::string& path, const ParseLimits& limits = {});
WT_API Tensor read_image(const std::string& path, const ImageOptions& o);
// The same of a file's content; `name` stands for the path in messages.
WT_API Tensor decode_image(std::span<const u8> bytes, const std::string& name,
                           const ParseLimits& limits = {});
WT_API Tensor decode_image(std::span<const u8> bytes, const std::string& name,
                           const ImageOptions& o);

// What a file's header says, without decoding it.
struct ImageInfo {
  ImageFormat format = ImageFormat::pnm;
  i64 height = 0, width = 0;  // as read_image() gives it, turned
  i64 channels = 0;           // as read_image() gives it
  int orientation = 1;        // EXIF's, 1 to 8; 5 to 8 have exchanged height and width
  friend bool operator==(const ImageInfo&, const ImageInfo&) = default;
};
// Needs none of the libraries that decode. Throws DataError where the header is damaged or cut; of
// what follows it nothing is known, but for an orientation that stands behind the pixels.
WT_API ImageInfo image_info(const std::string& path, const ImageOptions& o = {});
WT_API ImageInfo image_info(std::span<const u8> bytes, const std::string& name,
                            const ImageOptions& o = {});

// An image of any of the formats: the bytes of its file, or its pixels. Copies share them.
class WT_API Image {
 public:
  // Reads the file and its header; nothing is decoded. Throws DataError as image_info() does.
  static Image open(const std::string& path, const ImageOptions& o = {});
  static Image of_bytes(std::vector<u8> bytes, std::string name, const ImageOptions& o = {});

  const ImageInfo& info() const { return info_; }    // of an encoded one: of the whole image
  const std::string& name() const { return name_; }  // the path, for messages
  bool is_encoded() const { return !pixels_.defined(); }
  // Of the file; none of a decoded image.
  std::span<const u8> bytes() const;
  // u8 [H, W, C], decoded by each call. Throws DataError as decode_image() does.
  Tensor pixels() const;
  // The same with its pixels in place of the bytes.
  Image decoded() const;

 private:
  std::string name_;
  ImageInfo info_;
  ImageOptions options_;
  std::shared_ptr<const std::vector<u8>> bytes_;
  Tensor pixels_;
};

// A PNG file of u8 [H, W, C], C = 1 to 4: grey, grey and alpha, RGB, RGBA. Throws ShapeError,
// DtypeError, NotAvailable without libspng; a file is written whole or not at all.
WT_API std::string png_of(const Tensor& image);
WT_API void write_png(const std::string& path, const Tensor& image);

struct JpegOptions {
  int quality = 75;       // 1 to 100, libjpeg's, as torchvision's write_jpeg
  bool subsample = true;  // colours at half the height and width (4:2:0)
  bool progressive = false;
};
// A JPEG file of u8 [H, W, C], C = 1 (grey) or 3 (RGB), of sides to 65,500. The pixels are not kept
// to the level. Throws ShapeError, DtypeError, UsageError for such a quality, NotAvailable without
// libjpeg-turbo.
WT_API std::string jpeg_of(const Tensor& image, const JpegOptions& o = {});
WT_API void write_jpeg(const std::string& path, const Tensor& image, const JpegOptions& o = {});

struct WebpOptions {
  int quality = 80;       // 0 to 100, as PIL's
  bool lossless = false;  // every pixel is kept, also where it is transparent; `quality` is effort
};
// A WebP file of u8 [H, W, C], C = 1 to 4, of sides to 16,383. The format knows RGB and RGBA: grey
// becomes these, and comes back so. Throws as jpeg_of(), NotAvailable without libwebp.
WT_API std::string webp_of(const Tensor& image, const WebpOptions& o = {});
WT_API void write_webp(const std::string& path, const Tensor& image, const WebpOptions& o = {});

}  // namespace wt::data
