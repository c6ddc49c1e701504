#include "warptape/data/formats/exif.h"

#include <cstring>

#include "warptape/core/factories.h"

namespace wt::data::detail {
namespace {

// A TIFF header and its first directory (CIPA DC-008, Exif 2.32, 4.6.2 to 4.6.4).
class ExifDirectory {
 public:
  explicit ExifDirectory(std::span<const u8> tiff) : tiff_(tiff) {}
  int orientation() const {
    if (tiff_.size() < 8) return 1;
    if (std::memcmp(tiff_.data(), "II*\0", 4) != 0 && std::memcmp(tiff_.data(), "MM\0*", 4) != 0)
      return 1;
    const u64 directory = number(4, 4);
    if (directory + 2 > tiff_.size()) return 1;
    const u64 entries = number(directory, 2);
    for (u64 k = 0; k < entries; ++k) {
      const u64 at = directory + 2 + 12 * k;
      if (at + 12 > tiff_.size()) return 1;
      constexpr u64 kOrientation = 0x0112;
      if (number(at, 2) != kOrientation) continue;
      const u64 value = first_value(at);
      return value >= 1 && value <= 8 ? int(value) : 1;
    }
    return 1;
  }

 private:
  // Of an entry, if it holds whole numbers. The standard wants one SHORT; other types and counts
  // are in real files. More than four bytes of values lie elsewhere.
  u64 first_value(u64 entry) const {
    const u64 type = number(entry + 2, 2), count = number(entry + 4, 4);
    const u64 size = type == 1 || type == 6   ? 1  // BYTE, SBYTE
                     : type == 3 || type == 8 ? 2  // SHORT, SSHORT
                     : type == 4 || type == 9 ? 4  // LONG, SLONG
                                              : 0;
    const u64 at = size * count > 4 ? number(entry + 8, 4) : entry + 8;
    return size * count == 0 || at + size > tiff_.size() ? 0 : number(at, size);
  }
  u64 number(u64 at, u64 bytes) const {
    const bool little = tiff_[0] == 'I';
    u64 v = 0;
    for (u64 k = 0; k < bytes; ++k) v = v << 8 | tiff_[at + (little ? bytes - 1 - k : k)];
    return v;
  }
  std::span<const u8> tiff_;
};

}  // namespace

int exif_orientation(std::span<const u8> bytes) {
  constexpr size_t kMark = 6;
  const bool marked = bytes.size() >= kMark && std::memcmp(bytes.data(), "Exif\0\0", kMark) == 0;
  return ExifDirectory(marked ? bytes.subspan(kMark) : bytes).orientation();
}

// 2 mirrored, 3 upside down, 4 both, 5 to 8 the same of the transposed image.
Tensor turned(const Tensor& image, int orientation) {
  if (orientation == 1) return image;
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

}  // namespace wt::data::detail
