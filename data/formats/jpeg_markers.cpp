#include "warptape/data/formats/jpeg_markers.h"

#include <cstring>
#include <string_view>

namespace wt::data::detail {
namespace {

struct Segment {
  u8 marker = 0;
  std::span<const u8> data;  // without marker and length
};

// The segments before the first scan, as far as they are whole. Bytes that belong to none are
// passed over, as the decoder does.
class Segments {
 public:
  explicit Segments(std::span<const u8> bytes) : bytes_(bytes) {}
  bool next(Segment& s) {
    u8 marker = 0;
    while (next_marker(marker) && stands_alone(marker)) continue;
    constexpr u8 kStartOfScan = 0xda;
    if (at_ + 2 > bytes_.size() || marker == kStartOfScan) return false;
    const size_t length = size_t(bytes_[at_]) << 8 | bytes_[at_ + 1];
    if (length < 2 || length > bytes_.size() - at_) return false;
    s = {marker, bytes_.subspan(at_ + 2, length - 2)};
    at_ += length;
    return true;
  }

 private:
  static bool stands_alone(u8 marker) { return marker == 1 || (marker >= 0xd0 && marker <= 0xd7); }
  // 0xff and a byte that is neither 0 nor 0xff.
  bool next_marker(u8& marker) {
    for (; at_ + 1 < bytes_.size(); ++at_) {
      if (bytes_[at_] != 0xff || bytes_[at_ + 1] == 0 || bytes_[at_ + 1] == 0xff) continue;
      marker = bytes_[at_ + 1];
      at_ += 2;
      return true;
    }
    at_ = bytes_.size();
    return false;
  }

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

// Starts of frames: 0xc0 to 0xcf but for tables (c4, cc) and the extension (c8).
bool is_frame(u8 marker) {
  return (marker & 0xf0) == 0xc0 && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

}  // namespace

JpegMarkers jpeg_markers(std::span<const u8> bytes) {
  JpegMarkers m;
  Segment s;
  bool exif = false;
  for (Segments all(bytes); all.next(s);) {
    const std::string_view text(reinterpret_cast<const char*>(s.data.data()), s.data.size());
    if (s.marker == 0xe1 && !exif && text.starts_with(std::string_view("Exif\0\0", 6))) {
      m.orientation = ExifOrientation(s.data.subspan(6)).read();
      exif = true;
    }
    if (s.marker == 0xee && text.starts_with("Adobe")) m.adobe = true;
    if (is_frame(s.marker) && s.data.size() >= 6 && !m.frame) {
      m.frame = true;
      m.height = u64(s.data[1]) << 8 | s.data[2];
      m.width = u64(s.data[3]) << 8 | s.data[4];
      m.components = s.data[5];
    }
  }
  return m;
}

}  // namespace wt::data::detail
