// What image files say before their pixels, and Image. Headers are taken apart here and not by the
// libraries that decode, so that a listing of files costs a read each.
#include <algorithm>
#include <cstring>
#include <utility>

#include "warptape/core/input_file.h"
#include "warptape/data/formats/exif.h"
#include "warptape/data/formats/jpeg_markers.h"
#include "warptape/data/image.h"
#include "warptape/data/image_parts.h"

namespace wt::data {
namespace {

// The most pieces of a file that are looked for on the disk: what says how to turn it may be the
// last.
constexpr int kMostChunks = 1'000'000;

constexpr u64 four_letters(const char (&name)[5]) {
  return u64(u8(name[0])) << 24 | u64(u8(name[1])) << 16 | u64(u8(name[2])) << 8 | u8(name[3]);
}

class Header {
 public:
  // `bytes` are the file's first ones, all of them where there is no `rest` to read others from.
  Header(const std::string& path, std::span<const u8> bytes, const InputFile* rest = nullptr)
      : path_(path), bytes_(bytes), rest_(rest) {}

  ImageInfo read(const ImageOptions& o) const {
    const std::string_view head(reinterpret_cast<const char*>(bytes_.data()),
                                std::min<size_t>(bytes_.size(), 16));
    const ImageFormat format = detail::require_image_format(path_, head);
    ImageInfo info = format == ImageFormat::png    ? png()
                     : format == ImageFormat::jpeg ? jpeg()
                     : format == ImageFormat::webp ? webp()
                                                   : detail::pnm_info(path_, bytes_);
    info.format = format;
    if (o.apply_orientation && info.orientation >= 5) std::swap(info.height, info.width);
    if (info.height < 1 || info.width < 1)
      data_error(path_, 0, str("the image has ", info.height, " x ", info.width, " pixels"));
    detail::check_image_size(path_, 0, u64(info.height), u64(info.width), u64(info.channels),
                             o.limits);
    return info;
  }

  int orientation(ImageFormat format) const {
    return format == ImageFormat::png    ? png_chunks(0).orientation
           : format == ImageFormat::jpeg ? detail::jpeg_markers(bytes_).orientation
           : format == ImageFormat::webp ? webp_orientation()
                                         : 1;
  }

 private:
  [[noreturn]] void cut() const {
    data_error(path_, bytes_.size(), "the file ends within the header (truncated download?)");
  }
  u64 size() const { return rest_ ? rest_->size() : bytes_.size(); }
  void copy(u64 at, u8* to, u64 n) const {
    if (n == 0) return;  // an empty chunk: `to` may be null
    if (at + n <= bytes_.size())
      std::memcpy(to, bytes_.data() + at, n);
    else if (rest_ && at + n <= rest_->size())
      rest_->read(at, to, n, "the header");
    else
      cut();
  }
  u64 big(u64 at, int n) const {
    u8 p[8] = {};
    copy(at, p, u64(n));
    u64 v = 0;
    for (int k = 0; k < n; ++k) v = v << 8 | p[k];
    return v;
  }
  u64 little(u64 at, int n) const {
    u8 p[8] = {};
    copy(at, p, u64(n));
    u64 v = 0;
    for (int k = n - 1; k >= 0; --k) v = v << 8 | p[k];
    return v;
  }
  void count_chunk(int n, u64 at) const {
    if (rest_ && n > kMostChunks)
      data_error(path_, at, str("an image file of more than ", kMostChunks, " chunks"));
  }
  // Of EXIF data of so many bytes, as far as they are there. Its first directory comes first.
  int exif_at(u64 at, u64 n) const {
    std::vector<u8> exif(size_t(std::min({n, size() - at, u64{1} << 16})));
    copy(at, exif.data(), exif.size());
    return detail::exif_orientation(exif);
  }

  // https://www.w3.org/TR/png-3/#11IHDR: IHDR comes first; a tRNS chunk before the image data makes
  // colours transparent.
  ImageInfo png() const {
    if (big(12, 4) != four_letters("IHDR"))
      data_error(path_, 12, "damaged PNG: IHDR does not come first");
    const u64 width = big(16, 4), height = big(20, 4), kind = big(25, 1);
    if (width > 0x7fffffff || height > 0x7fffffff || kind > 6 || kind == 1 || kind == 5)
      data_error(path_, 16, "damaged PNG: a size or colour type that there is not");
    const PngChunks chunks = png_chunks(kind);
    return {.height = i64(height),
            .width = i64(width),
            .channels = (kind & 2 ? 3 : 1) + (kind & 4 || chunks.transparent ? 1 : 0),
            .orientation = chunks.orientation};
  }

  struct PngChunks {
    bool transparent = false;  // of a colour type without alpha
    int orientation = 1;
  };
  // Up to the pixels all must be there; behind them may be eXIf, and what is cut there does not
  // matter.
  PngChunks png_chunks(u64 kind) const {
    constexpr u64 kIdat = four_letters("IDAT"), kIend = four_letters("IEND"),
                  kTrns = four_letters("tRNS"), kExif = four_letters("eXIf");
    PngChunks found;
    bool pixels = false, exif = false;
    int n = 0;
    for (u64 at = 8; !pixels || at + 8 <= size();) {
      count_chunk(++n, at);
      const u64 head = big(at, 8), bytes = head >> 32, type = head & 0xffffffff;
      if (type == kIend) break;
      pixels |= type == kIdat;
      found.transparent |= type == kTrns && !pixels && !(kind & 4);
      if (type == kExif && !std::exchange(exif, true) && at + 8 <= size())
        found.orientation = exif_at(at + 8, bytes);
      at += 12 + bytes;
    }
    return found;
  }

  ImageInfo jpeg() const {
    const detail::JpegMarkers m = detail::jpeg_markers(bytes_);
    if (!m.frame)
      data_error(path_, bytes_.size(), "the JPEG data ends before its frame (truncated download?)");
    if (m.components != 1 && m.components != 3 && m.components != 4)
      data_error(path_, 0, str("a JPEG file of ", m.components, " channels of unknown colours"));
    return {.height = i64(m.height),
            .width = i64(m.width),
            .channels = m.components == 1 ? 1 : 3,
            .orientation = m.orientation};
  }

  // RFC 9649, 2.5 to 2.7, and RFC 6386, 9.1.
  ImageInfo webp() const {
    constexpr u64 kLossless = four_letters("VP8L"), kLossy = four_letters("VP8 ");
    const u64 kind = big(12, 4);
    if (kind == kWebpExtended) {
      const i64 height = i64(little(27, 3) + 1), width = i64(little(24, 3) + 1);
      const WebpChunks chunks = webp_chunks();
      return {.height = height,
              .width = width,
              .channels = chunks.alpha ? 4 : 3,
              .orientation = chunks.orientation};
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

  struct WebpChunks {
    bool alpha = false;
    int orientation = 1;
  };
  // Of the extended format. Whether there is alpha a lossless frame says itself, of a lossy one the
  // flags or a chunk before it. EXIF comes behind the pixels, if the flags announce it.
  WebpChunks webp_chunks() const {
    constexpr u64 kExif = four_letters("EXIF"), kAlpha = four_letters("ALPH"),
                  kLossless = four_letters("VP8L"), kLossy = four_letters("VP8 ");
    const u64 flags = big(20, 1), end = std::min(size(), 8 + little(4, 4));
    WebpChunks found{.alpha = (flags & 0x10) != 0};
    bool pixels = false;
    int n = 0;
    for (u64 at = 12; at + 8 <= end;) {
      count_chunk(++n, at);
      const u64 bytes = little(at + 4, 4), type = big(at, 4);
      if (type == kAlpha && !pixels) found.alpha = true;
      if (type == kLossless && !pixels && at + 13 <= end) found.alpha = little(at + 9, 4) >> 28 & 1;
      pixels |= type == kLossless || type == kLossy;
      if (type == kExif && flags & 8) {
        found.orientation = exif_at(at + 8, bytes);
        break;
      }
      at += 8 + bytes + bytes % 2;
    }
    return found;
  }
  int webp_orientation() const {
    return size() >= 30 && big(12, 4) == kWebpExtended ? webp_chunks().orientation : 1;
  }
  static constexpr u64 kWebpExtended = four_letters("VP8X");

  const std::string& path_;
  const std::span<const u8> bytes_;
  const InputFile* rest_;
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

int detail::image_orientation(std::span<const u8> bytes, ImageFormat format) {
  return Header("", bytes).orientation(format);
}

ImageInfo image_info(const std::string& path, const ImageOptions& o) {
  // Enough for nearly every file: what a camera writes before the frame is a few ten KiB.
  constexpr u64 kFirst = u64{64} << 10;
  const InputFile file(path);
  std::vector<u8> bytes(size_t(std::min(file.size(), kFirst)));
  file.read(0, bytes.data(), bytes.size(), "the header");
  try {
    return Header(path, bytes, &file).read(o);
  } catch (const DataError&) {
    if (bytes.size() == file.size()) throw;
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
