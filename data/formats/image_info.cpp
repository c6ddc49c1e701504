// What image files say before their pixels, and Image. Headers are taken apart here and not by the
// libraries that decode, so that a listing of files costs a read each.
#include <algorithm>

#include "warptape/core/input_file.h"
#include "warptape/data/formats/jpeg_markers.h"
#include "warptape/data/image.h"
#include "warptape/data/image_parts.h"

namespace wt::data {
namespace {

class Header {
 public:
  Header(const std::string& path, std::span<const u8> bytes) : path_(path), bytes_(bytes) {}

  ImageInfo read(const ImageOptions& o) const {
    const std::string_view head(reinterpret_cast<const char*>(bytes_.data()),
                                std::min<size_t>(bytes_.size(), 16));
    const ImageFormat format = detail::require_image_format(path_, head);
    ImageInfo info = format == ImageFormat::png    ? png()
                     : format == ImageFormat::jpeg ? jpeg(o)
                     : format == ImageFormat::webp ? webp()
                                                   : detail::pnm_info(path_, bytes_);
    info.format = format;
    if (info.height < 1 || info.width < 1)
      data_error(path_, 0, str("the image has ", info.height, " x ", info.width, " pixels"));
    detail::check_image_size(path_, 0, u64(info.height), u64(info.width), u64(info.channels),
                             o.limits);
    return info;
  }

 private:
  [[noreturn]] void cut() const {
    data_error(path_, bytes_.size(), "the file ends within the header (truncated download?)");
  }
  u64 big(u64 at, int n) const {
    if (at + u64(n) > bytes_.size()) cut();
    u64 v = 0;
    for (int k = 0; k < n; ++k) v = v << 8 | bytes_[at + u64(k)];
    return v;
  }
  u64 little(u64 at, int n) const {
    if (at + u64(n) > bytes_.size()) cut();
    u64 v = 0;
    for (int k = n - 1; k >= 0; --k) v = v << 8 | bytes_[at + u64(k)];
    return v;
  }

  // https://www.w3.org/TR/png-3/#11IHDR: IHDR comes first; a tRNS chunk before the image data makes
  // colours transparent.
  ImageInfo png() const {
    constexpr u64 kIhdr = 0x49484452, kIdat = 0x49444154, kIend = 0x49454e44, kTrns = 0x74524e53;
    if (big(12, 4) != kIhdr) data_error(path_, 12, "damaged PNG: IHDR does not come first");
    const u64 width = big(16, 4), height = big(20, 4), kind = big(25, 1);
    if (width > 0x7fffffff || height > 0x7fffffff || kind > 6 || kind == 1 || kind == 5)
      data_error(path_, 16, "damaged PNG: a size or colour type that there is not");
    i64 channels = (kind & 2 ? 3 : 1) + (kind & 4 ? 1 : 0);
    for (u64 at = 8;;) {
      const u64 size = big(at, 4), type = big(at + 4, 4);
      if (type == kIdat || type == kIend) break;
      if (type == kTrns && !(kind & 4)) {
        ++channels;
        break;
      }
      at += 12 + size;
    }
    return {.height = i64(height), .width = i64(width), .channels = channels};
  }

  ImageInfo jpeg(const ImageOptions& o) const {
    const detail::JpegMarkers m = detail::jpeg_markers(bytes_);
    if (!m.frame)
      data_error(path_, bytes_.size(), "the JPEG data ends before its frame (truncated download?)");
    if (m.components != 1 && m.components != 3 && m.components != 4)
      data_error(path_, 0, str("a JPEG file of ", m.components, " channels of unknown colours"));
    ImageInfo info{.height = i64(m.height),
                   .width = i64(m.width),
                   .channels = m.components == 1 ? 1 : 3,
                   .orientation = m.orientation};
    if (o.apply_orientation && m.orientation >= 5) std::swap(info.height, info.width);
    return info;
  }

  // RFC 9649, 2.5 to 2.7, and RFC 6386, 9.1.
  ImageInfo webp() const {
    constexpr u64 kExtended = 0x58385056, kLossless = 0x4c385056, kLossy = 0x20385056;
    const u64 kind = little(12, 4);
    if (kind == kExtended) {
      const u64 flags = big(20, 1);
      return {.height = i64(little(27, 3) + 1),
              .width = i64(little(24, 3) + 1),
              .channels = flags & 0x10 ? 4 : 3};
    }
    if (kind == kLossless) {
      if (big(20, 1) != 0x2f) data_error(path_, 20, "damaged WebP");
      const u64 bits = little(21, 4);
      return {.height = i64((bits >> 14 & 0x3fff) + 1),
              .width = i64((bits & 0x3fff) + 1),
              .channels = bits >> 28 & 1 ? 4 : 3};
    }
    if (kind != kLossy || big(23, 3) != 0x9d012a) data_error(path_, 12, "damaged WebP");
    return {
        .height = i64(little(28, 2) & 0x3fff), .width = i64(little(26, 2) & 0x3fff), .channels = 3};
  }

  const std::string& path_;
  const std::span<const u8> bytes_;
};

}  // namespace

const char* image_format_name(ImageFormat f) {
  switch (f) {
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::webp:
      return "WebP";
    default:
      return "PPM";
  }
}

ImageInfo image_info(std::span<const u8> bytes, const std::string& name, const ImageOptions& o) {
  return Header(name, bytes).read(o);
}

ImageInfo image_info(const std::string& path, const ImageOptions& o) {
  // Enough for nearly every file: what a camera writes before the frame is a few ten KiB.
  constexpr u64 kFirst = u64{64} << 10;
  const InputFile file(path);
  std::vector<u8> bytes(size_t(std::min(file.size(), kFirst)));
  file.read(0, bytes.data(), bytes.size(), "the header");
  if (bytes.size() == file.size()) return image_info(bytes, path, o);
  try {
    return image_info(bytes, path, o);
  } catch (const DataError&) {
    return image_info(detail::read_image_file(path, o.limits), path, o);
  }
}

// --- Image ---

Image Image::of_bytes(std::vector<u8> bytes, std::string name, const ImageOptions& o) {
  Image image;
  image.info_ = image_info(bytes, name, o);
  image.name_ = std::move(name);
  image.options_ = o;
  image.bytes_ = std::make_shared<const std::vector<u8>>(std::move(bytes));
  return image;
}

Image Image::open(const std::string& path, const ImageOptions& o) {
  return of_bytes(detail::read_image_file(path, o.limits), path, o);
}

std::span<const u8> Image::bytes() const {
  return bytes_ ? std::span<const u8>(*bytes_) : std::span<const u8>();
}

Tensor Image::pixels() const {
  return is_encoded() ? decode_image(bytes(), name_, options_) : pixels_;
}

Image Image::decoded() const {
  Image image = *this;
  image.pixels_ = pixels();
  image.info_.height = image.pixels_.size(0), image.info_.width = image.pixels_.size(1);
  image.bytes_.reset();
  return image;
}

}  // namespace wt::data
