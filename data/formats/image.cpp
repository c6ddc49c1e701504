#include "warptape/data/image.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/formats/exif.h"
#include "warptape/data/image_parts.h"

namespace wt::data {
namespace {

constexpr u64 kMaxPixels = 64'000'000;
// Of a file: 64 million colours as text need three quarters of it.
constexpr u64 kMaxImageFile = u64{1} << 30;

bool is_space(u8 c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(u8 c) { return c >= '0' && c <= '9'; }

// Reads the header of a Netpbm file and, of the plain kinds, its samples.
class PnmReader {
 public:
  PnmReader(const std::string& path, std::span<const u8> bytes) : path_(path), bytes_(bytes) {}

  // Leaves at_ at the first sample.
  ImageInfo header() {
    const char kind = char(bytes_[1]);
    if (kind != '2' && kind != '3' && kind != '5' && kind != '6')
      fail(0, str("P", kind, " is a Netpbm format that is not read; P2, P3, P5 and P6 are"));
    at_ = 2;
    const u64 width = header_number("width"), height = header_number("height");
    maxval_ = header_number("maxval");
    if (maxval_ > 255)
      fail(at_, str("maxval ", maxval_, " is more than 255: samples of two bytes are not read"));
    if (at_ == bytes_.size() || !is_space(bytes_[at_]))
      fail(at_, "one white space must follow the header");
    ++at_;
    return {.format = ImageFormat::pnm,
            .height = i64(height),
            .width = i64(width),
            .channels = kind == '3' || kind == '6' ? 3 : 1};
  }

  Tensor read(const ParseLimits& limits) {
    const ImageInfo info = header();
    const u64 width = u64(info.width), height = u64(info.height), channels = u64(info.channels);
    const bool plain = bytes_[1] < '5';
    // Before memory is asked for: the file must be long enough for what its header promises.
    const u64 left = bytes_.size() - at_;
    if (width <= kMaxPixels && height <= kMaxPixels) {
      const u64 samples = width * height * channels;
      if (const u64 least = plain ? 2 * samples - 1 : samples; left < least)
        fail(bytes_.size(), str("the header promises ", height, " x ", width, " pixels, ", least,
                                " bytes at least; ", left, " follow (truncated download?)"));
    }
    Tensor image = detail::empty_image(path_, 2, height, width, channels, limits);
    u8* const out = image.mutable_data<u8>();
    const u64 samples = u64(image.numel());
    plain ? read_plain(out, samples) : read_raw(out, samples);
    check_end();
    return image;
  }

 private:
  [[noreturn]] void fail(u64 at, const std::string& what) const { data_error(path_, at, what); }

  void skip_space(bool comments) {
    for (; at_ < bytes_.size(); ++at_) {
      if (comments && bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
        if (at_ == bytes_.size()) return;
      } else if (!is_space(bytes_[at_])) {
        return;
      }
    }
  }

  // A whole number that is at most `most`.
  u64 number(const char* what, u64 most) {
    const u64 begin = at_;
    u64 value = 0;
    for (; at_ < bytes_.size() && is_digit(bytes_[at_]); ++at_) {
      value = value * 10 + (bytes_[at_] - '0');
      if (value > most) fail(begin, str(what, " is more than ", most));
    }
    if (at_ == begin)
      fail(begin, at_ == bytes_.size()
                      ? str("the file ends where its ", what, " should be (truncated download?)")
                      : str("no digit where the ", what, " should be"));
    return value;
  }

  u64 header_number(const char* what) {
    const u64 begin = at_;
    skip_space(true);
    if (at_ == begin && at_ < bytes_.size()) fail(at_, str("no white space before the ", what));
    const u64 digits = at_, value = number(what, 2'000'000'000);
    if (value == 0) fail(digits, str("the ", what, " is 0"));
    return value;
  }

  // value * 255 / maxval, rounded.
  u8 scaled(u64 value) const { return u8((value * 255 + maxval_ / 2) / maxval_); }

  void read_plain(u8* out, u64 samples) {
    for (u64 i = 0; i < samples; ++i) {
      const u64 begin = at_;
      skip_space(false);
      if (i > 0 && at_ == begin && at_ < bytes_.size()) fail(at_, "no white space before a sample");
      out[i] = scaled(number("sample", maxval_));
    }
  }

  void read_raw(u8* out, u64 samples) {
    std::memcpy(out, bytes_.data() + at_, samples);
    if (maxval_ != 255) {
      for (u64 i = 0; i < samples; ++i) {
        if (out[i] > maxval_)
          fail(at_ + i, str("sample ", int(out[i]), " is more than maxval ", maxval_));
        out[i] = scaled(out[i]);
      }
    }
    at_ += samples;
  }

  // Some writers end with a line break.
  void check_end() {
    skip_space(false);
    if (at_ != bytes_.size()) fail(at_, str(bytes_.size() - at_, " bytes follow the last pixel"));
  }

  const std::string& path_;
  const std::span<const u8> bytes_;
  u64 at_ = 0, maxval_ = 255;
};

// What else it may be, for the message.
const char* other_format(std::string_view head) {
  struct Magic {
    std::string_view bytes;
    const char* name;
  };
  static constexpr std::array<Magic, 5> magics{
      {{"\x1f\x8b", "gzip"}, {"GIF8", "GIF"}, {"BM", "BMP"}, {"II*", "TIFF"}, {"MM", "TIFF"}}};
  for (const Magic& m : magics) {
    if (head.starts_with(m.bytes)) return m.name;
  }
  return nullptr;
}

}  // namespace

void detail::check_image_size(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                              const ParseLimits& limits) {
  if (width > kMaxPixels || height > kMaxPixels || width * height > kMaxPixels)
    data_error(path, at,
               str("the image has ", height, " x ", width, " pixels, the limit is ", kMaxPixels));
  if (width * height * channels > limits.max_bytes)
    data_error(path, at,
               str("the image has ", width * height * channels, " bytes, the limit is ",
                   limits.max_bytes));
}

Tensor detail::empty_image(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                           const ParseLimits& limits) {
  check_image_size(path, at, height, width, channels, limits);
  const CategoryScope scope(Category::dataset);
  return empty({i64(height), i64(width), i64(channels)},
               {.dtype = DType::u8, .device = Device::cpu()});
}

ImageInfo detail::pnm_info(const std::string& path, std::span<const u8> bytes) {
  return PnmReader(path, bytes).header();
}

std::optional<ImageFormat> image_format(std::string_view head) {
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (head.starts_with("\xff\xd8\xff")) return ImageFormat::jpeg;
  if (head.starts_with("RIFF") && head.substr(std::min<size_t>(head.size(), 8)).starts_with("WEBP"))
    return ImageFormat::webp;
  if (head.size() > 1 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7')
    return ImageFormat::pnm;
  return {};
}

namespace {

Tensor stored_pixels(const std::string& path, ImageFormat format, std::span<const u8> bytes,
                     const ImageOptions& o) {
  switch (format) {
    case ImageFormat::png:
      return detail::read_png(path, bytes, o);
    case ImageFormat::jpeg:
      return detail::read_jpeg(path, bytes, o);
    case ImageFormat::webp:
      return detail::read_webp(path, bytes, o);
    default:
      return PnmReader(path, bytes).read(o.limits);
  }
}

void check_file_size(const std::string& path, u64 bytes, const ParseLimits& limits) {
  if (const u64 most = std::min(kMaxImageFile, limits.max_bytes); bytes > most)
    data_error(path, 0, str("the image file has ", bytes, " bytes, the limit is ", most));
}

std::string_view head_of(std::span<const u8> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16)};
}

}  // namespace

ImageFormat detail::require_image_format(const std::string& path, std::string_view head) {
  if (const auto format = image_format(head)) return *format;
  if (head.empty()) data_error(path, 0, "the file is empty");
  if (head.starts_with("\x89PNG"))
    data_error(path, 4, "a PNG file whose line ends were changed on the way (text mode?)");
  const char* const name = other_format(head);
  data_error(path, 0,
             name ? str("a ", name, " file; PNG, JPEG, WebP, PPM and PGM are read")
                  : str("neither PNG nor JPEG nor WebP nor PPM nor PGM: it begins with \"",
                        printable(head), "\""));
}

std::vector<u8> detail::read_image_file(const std::string& path, const ParseLimits& limits) {
  const InputFile file(path);
  std::string head(size_t(std::min<u64>(file.size(), 16)), '\0');
  file.read(0, head.data(), head.size(), "the magic number");
  (void)require_image_format(path, head);
  check_file_size(path, file.size(), limits);
  std::vector<u8> bytes(static_cast<size_t>(file.size()));
  file.read(0, bytes.data(), bytes.size(), "the image");
  return bytes;
}

Tensor read_image(const std::string& path, const ImageOptions& o) {
  return decode_image(detail::read_image_file(path, o.limits), path, o);
}
Tensor read_image(const std::string& path, const ParseLimits& limits) {
  return read_image(path, ImageOptions{.limits = limits});
}

Tensor decode_image(std::span<const u8> bytes, const std::string& name, const ImageOptions& o) {
  const ImageFormat format = detail::require_image_format(name, head_of(bytes));
  check_file_size(name, bytes.size(), o.limits);
  const Tensor image = stored_pixels(name, format, bytes, o);
  return o.apply_orientation ? detail::turned(image, detail::image_orientation(bytes, format))
                             : image;
}
Tensor decode_image(std::span<const u8> bytes, const std::string& name, const ParseLimits& limits) {
  return decode_image(bytes, name, ImageOptions{.limits = limits});
}

}  // namespace wt::data
