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

// The formats that are read: pnm (PGM and PPM), png, jpeg and webp.
enum class ImageFormat { pnm, png, jpeg, webp };
// A name for messages; pnm has "PPM".
WT_API const char* image_format_name(ImageFormat f);  // "PPM", "PNG", "JPEG", "WebP"
// The format of a file that begins so, by at most 16 bytes; none for others. pnm also for the kinds
// of Netpbm that are not read.
WT_API std::optional<ImageFormat> image_format(std::string_view head);

// How an image file is decoded.
struct ImageOptions {
  // Turn and mirror as EXIF's orientation says; false: as the pixels are stored.
  bool apply_orientation = true;
  // Both positive: a JPEG file that is at least twice as high and as wide is decoded at 1/2, 1/4 or
  // 1/8 of its size (rounded up), the least that is not below fast_height x fast_width. Several
  // times as fast, and not the pixels that resizing the whole image gives.
  i64 fast_height = 0, fast_width = 0;
  ParseLimits limits = {};  // max_bytes: of the file, and of the pixels
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
// The pixels of a file's content, as read_image() gives them; `name` stands for the path in
// messages.
WT_API Tensor decode_image(std::span<const u8> bytes, const std::string& name,
                           const ParseLimits& limits = {});
WT_API Tensor decode_image(std::span<const u8> bytes, const std::string& name,
                           const ImageOptions& o);

// What a file's header says, without decoding it.
struct ImageInfo {
  ImageFormat format = ImageFormat::pnm;  // by the content
  i64 height = 0, width = 0;              // as read_image() gives it, turned
  i64 channels = 0;                       // as read_image() gives it
  int orientation = 1;                    // EXIF's, 1 to 8; 5 to 8 have exchanged height and width
  friend bool operator==(const ImageInfo&, const ImageInfo&) = default;
};
// What the header of a file, or of its content, says; `name` stands for the path in messages. Needs
// none of the libraries that decode. Throws DataError where the header is damaged or cut; of
// what follows it nothing is known, but for an orientation that stands behind the pixels.
WT_API ImageInfo image_info(const std::string& path, const ImageOptions& o = {});
WT_API ImageInfo image_info(std::span<const u8> bytes, const std::string& name,
                            const ImageOptions& o = {});

// An image of any of the formats: the bytes of its file, or its pixels. Copies share them.
class WT_API Image {
 public:
  // Reads the file and its header; nothing is decoded. Throws DataError as image_info() does.
  static Image open(const std::string& path, const ImageOptions& o = {});
  // The image of a file's content; `name` stands for the path in messages. Throws as open().
  static Image of_bytes(std::vector<u8> bytes, std::string name, const ImageOptions& o = {});

  // What the header says of the whole image; of a decoded one with the size of its pixels.
  const ImageInfo& info() const { return info_; }
  // The path, for messages.
  const std::string& name() const { return name_; }
  // Whether it holds the file's bytes, so that each pixels() decodes them.
  bool is_encoded() const { return !pixels_.defined(); }
  // The bytes of the file; none of a decoded image.
  std::span<const u8> bytes() const;
  // The pixels, u8 [H, W, C] on the cpu, decoded by each call. Throws DataError as decode_image()
  // does.
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

// The content of a PNG file of u8 [H, W, C], C = 1 to 4: grey, grey and alpha, RGB, RGBA. Throws
// ShapeError, DtypeError, NotAvailable without libspng.
WT_API std::string png_of(const Tensor& image);
// Writes png_of() into a file, whole or not at all. Throws as that, and CheckpointError.
WT_API void write_png(const std::string& path, const Tensor& image);

// How JPEG files are written.
struct JpegOptions {
  int quality = 75;          // 1 to 100, libjpeg's, as torchvision's write_jpeg
  bool subsample = true;     // colours at half the height and width (4:2:0)
  bool progressive = false;  // in several passes, from coarse to fine, instead of row by row
};
// The content of a JPEG file of u8 [H, W, C], C = 1 (grey) or 3 (RGB), of sides to 65,500. The
// pixels are not kept to the level. Throws ShapeError, DtypeError, UsageError for another quality,
// NotAvailable without libjpeg-turbo.
WT_API std::string jpeg_of(const Tensor& image, const JpegOptions& o = {});
// Writes jpeg_of() into a file, whole or not at all. Throws as that, and CheckpointError.
WT_API void write_jpeg(const std::string& path, const Tensor& image, const JpegOptions& o = {});

// How WebP files are written.
struct WebpOptions {
  int quality = 80;       // 0 to 100, as PIL's
  bool lossless = false;  // every pixel is kept, also where it is transparent; `quality` is effort
};
// The content of a WebP file of u8 [H, W, C], C = 1 to 4, of sides to 16,383. The format knows RGB
// and RGBA: grey becomes these, and comes back so. Throws as jpeg_of(), NotAvailable without
// libwebp.
WT_API std::string webp_of(const Tensor& image, const WebpOptions& o = {});
// Writes webp_of() into a file, whole or not at all. Throws as that, and CheckpointError.
WT_API void write_webp(const std::string& path, const Tensor& image, const WebpOptions& o = {});

}  // namespace wt::data
