#include "warptape/data/formats/jpeg_markers.h"

#include <string_view>

#include "warptape/data/formats/exif.h"

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
      m.orientation = exif_orientation(s.data);
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
