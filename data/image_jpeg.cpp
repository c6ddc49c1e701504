// JPEG by libjpeg-turbo (https://libjpeg-turbo.org), which reads untrusted files and is fuzzed.
#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_JPEG
#include <turbojpeg.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>
#endif

namespace wt::data::detail {

#if WARPTAPE_HAS_JPEG
namespace {

// --- markers ---

struct Segment {
  u8 marker = 0;
  std::span<const u8> data;  // without marker and length
};

// The segments before the first scan, as far as they are whole.
class Segments {
 public:
  explicit Segments(std::span<const u8> bytes) : bytes_(bytes) {}
  bool next(Segment& s) {
    while (at_ + 4 <= bytes_.size() && bytes_[at_] == 0xff && bytes_[at_ + 1] == 0xff) ++at_;
    if (at_ + 4 > bytes_.size() || bytes_[at_] != 0xff) return false;
    const size_t length = size_t(bytes_[at_ + 2]) << 8 | bytes_[at_ + 3];
    constexpr u8 kStartOfScan = 0xda;
    if (bytes_[at_ + 1] == kStartOfScan || length < 2 || length > bytes_.size() - at_ - 2)
      return false;
    s = {bytes_[at_ + 1], bytes_.subspan(at_ + 4, length - 2)};
    at_ += 2 + length;
    return true;
  }

 private:
  std::span<const u8> bytes_;
  size_t at_ = 2;  // behind the start of the image
};

// The orientation in a TIFF header's first directory (CIPA DC-008, Exif 2.32, 4.6.4): 1 to 8.
class ExifOrientation {
 public:
  explicit ExifOrientation(std::span<const u8> tiff) : tiff_(tiff) {}
  int read() const {
    if (tiff_.size() < 8) return 1;
    if (std::memcmp(tiff_.data(), "II*\0", 4) != 0 && std::memcmp(tiff_.data(), "MM\0*", 4) != 0)
      return 1;
    const u64 directory = number(4, 4);
    if (directory + 2 > tiff_.size()) return 1;
    const u64 entries = number(directory, 2);
    for (u64 k = 0; k < entries; ++k) {
      const u64 at = directory + 2 + 12 * k;
      if (at + 12 > tiff_.size()) return 1;
      constexpr u64 kOrientation = 0x0112, kShort = 3;
      if (number(at, 2) != kOrientation || number(at + 2, 2) != kShort || number(at + 4, 4) != 1)
        continue;
      const u64 value = number(at + 8, 2);
      return value >= 1 && value <= 8 ? int(value) : 1;
    }
    return 1;
  }

 private:
  u64 number(u64 at, u64 bytes) const {
    const bool little = tiff_[0] == 'I';
    u64 v = 0;
    for (u64 k = 0; k < bytes; ++k) v = v << 8 | tiff_[at + (little ? bytes - 1 - k : k)];
    return v;
  }
  std::span<const u8> tiff_;
};

struct Markers {
  int orientation = 1;
  bool adobe = false;  // whose CMYK is inverted

  explicit Markers(std::span<const u8> bytes) {
    Segment s;
    bool exif = false;
    for (Segments all(bytes); all.next(s);) {
      const std::string_view text(reinterpret_cast<const char*>(s.data.data()), s.data.size());
      if (s.marker == 0xe1 && !exif && text.starts_with(std::string_view("Exif\0\0", 6))) {
        orientation = ExifOrientation(s.data.subspan(6)).read();
        exif = true;
      }
      if (s.marker == 0xee && text.starts_with("Adobe")) adobe = true;
    }
  }
};

// --- pixels ---

// Inks to RGB, in place: n pixels of four bytes become n of three.
void rgb_of_cmyk(const u8* inks, u8* out, i64 n, bool inverted) {
  for (i64 i = 0; i < n; ++i) {
    const auto light = [&](int k) {
      return int(inverted ? inks[4 * i + k] : 255 - inks[4 * i + k]);
    };
    for (int c = 0; c < 3; ++c) out[3 * i + c] = u8((light(c) * light(3) + 127) / 255);
  }
}

// As a camera that was turned meant it: 2 mirrored, 3 upside down, 4 both, 5 to 8 the same of the
// transposed image.
Tensor turned(const Tensor& image, int orientation) {
  Tensor t = orientation >= 5 ? image.permute({1, 0, 2}) : image;
  const i64 h = t.size(0), w = t.size(1), c = t.size(2);
  const bool down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8,
             along = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  t = t.contiguous();
  Tensor out = empty_like(t);
  const u8* const from = t.data<u8>();
  u8* const to = out.mutable_data<u8>();
  for (i64 y = 0; y < h; ++y)
    for (i64 x = 0; x < w; ++x)
      std::memcpy(to + (y * w + x) * c,
                  from + ((down ? h - 1 - y : y) * w + (along ? w - 1 - x : x)) * c, size_t(c));
  return out;
}

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, Destroy>;

// One a thread: making one costs as much as decoding a thumbnail.
Handle& kept_handle() {
  thread_local Handle handle;
  return handle;
}
void* decompressor() {
  Handle& handle = kept_handle();
  if (!handle) handle.reset(tjInitDecompress());
  if (!handle) throw OutOfMemory("libjpeg-turbo has no memory");
  return handle.get();
}

class JpegReader {
 public:
  JpegReader(const std::string& path, std::span<const u8> bytes)
      : path_(path), bytes_(bytes), handle_(decompressor()), markers_(bytes) {}

  Tensor read(const ParseLimits& limits) {
    int width = 0, height = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(handle_, bytes_.data(), bytes_.size(), &width, &height, &sampling,
                            &colours) != 0)
      fail();
    if (width < 1 || height < 1) data_error(path_, 0, "the JPEG file has no pixels");
    const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK, grey = colours == TJCS_GRAY;
    Tensor image = empty_image(path_, 0, u64(height), u64(width), grey ? 1 : 3, limits);
    if (inks) {
      Tensor four = empty_image(path_, 0, u64(height), u64(width), 4, limits);
      decode(four, TJPF_CMYK);
      rgb_of_cmyk(four.data<u8>(), image.mutable_data<u8>(), i64(width) * height, markers_.adobe);
    } else {
      decode(image, grey ? TJPF_GRAY : TJPF_RGB);
    }
    return markers_.orientation == 1 ? image : turned(image, markers_.orientation);
  }

 private:
  // Scans without end are a bomb: a progressive file has some ten, 500 are refused. A warning is
  // a damaged or truncated file.
  void decode(Tensor& image, int format) {
    if (tjDecompress2(handle_, bytes_.data(), bytes_.size(), image.mutable_data<u8>(),
                      int(image.size(1)), 0, int(image.size(0)), format,
                      TJFLAG_LIMITSCANS | TJFLAG_STOPONWARNING | TJFLAG_ACCURATEDCT) != 0)
      fail();
  }

  [[noreturn]] void fail() const {
    const std::string what = tjGetErrorStr2(handle_);
    kept_handle().reset();  // what it had read of a marker would be taken for the next image's
    const bool cut = what.find("remature end") != what.npos;
    data_error(path_, cut ? bytes_.size() : 0,
               cut ? "the JPEG data ends early (truncated download?)"
                   : str("damaged JPEG: ", printable(what, 200)));
  }

  const std::string& path_;
  std::span<const u8> bytes_;
  void* handle_;
  Markers markers_;
};

}  // namespace

Tensor read_jpeg(const std::string& path, std::span<const u8> bytes, const ParseLimits& limits) {
  return JpegReader(path, bytes).read(limits);
}

#else

Tensor read_jpeg(const std::string& path, std::span<const u8>, const ParseLimits&) {
  throw NotAvailable(str(printable(path, 400),
                         " is JPEG and this build has no libjpeg-turbo\n  Try convert FILE.jpg "
                         "FILE.ppm, or install libturbojpeg0-dev and configure again"));
}

#endif

}  // namespace wt::data::detail
