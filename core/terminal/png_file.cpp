// A PNG file without a library (https://www.w3.org/TR/png-3/, RFC 1950, RFC 1951).
#include <algorithm>
#include <array>

#include "warptape/core/terminal/raster.h"

namespace wt::chart {
namespace {

std::string big_endian(u32 v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

u32 crc_of(std::string_view bytes) {
  u32 crc = ~0u;
  for (const char b : bytes) {
    crc ^= static_cast<unsigned char>(b);
    for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

u32 adler_of(std::string_view bytes) {
  u32 a = 1, b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string chunk(std::string type, const std::string& content) {
  const std::string checked = std::move(type) + content;
  return big_endian(u32(content.size())) + checked + big_endian(crc_of(checked));
}

// Bits from the lowest of a byte upwards.
class Bits {
 public:
  void put(u32 value, int n) {
    held_ |= u64(value) << count_;
    for (count_ += n; count_ >= 8; count_ -= 8, held_ >>= 8) bytes_ += char(held_);
  }
  // A Huffman code, whose highest bit comes first.
  void code(u32 value, int n) {
    for (int k = n - 1; k >= 0; --k) put(value >> k & 1, 1);
  }
  // The fixed code of a byte or of a length.
  void symbol(int s) {
    if (s < 144)
      code(u32(0x30 + s), 8);
    else if (s < 256)
      code(u32(0x190 + s - 144), 9);
    else if (s < 280)
      code(u32(s - 256), 7);
    else
      code(u32(0xC0 + s - 280), 8);
  }
  std::string take() {
    if (count_ > 0) bytes_ += char(held_);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  u64 held_ = 0;
  int count_ = 0;
};

// `n` more bytes as the last one, 3 to 258.
void put_run(Bits& to, int n) {
  static constexpr int kFirst[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                   31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  static constexpr int kExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                   2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  const int k = int(std::upper_bound(std::begin(kFirst), std::end(kFirst), n) - kFirst) - 1;
  to.symbol(257 + k);
  to.put(u32(n - kFirst[k]), kExtra[k]);
  to.code(0, 5);  // a distance of 1
}

std::string compressed(const std::string& bytes) {
  Bits out;
  out.put(1, 1), out.put(1, 2);  // the last block, of fixed codes
  for (std::size_t i = 0; i < bytes.size();) {
    out.symbol(static_cast<unsigned char>(bytes[i]));
    std::size_t end = ++i;
    while (end < bytes.size() && bytes[end] == bytes[i - 1]) ++end;
    for (; end - i >= 3; i += std::min<std::size_t>(258, end - i))
      put_run(out, int(std::min<std::size_t>(258, end - i)));
  }
  out.symbol(256);
  return "\x78\x01" + out.take() + big_endian(adler_of(bytes));
}

}  // namespace

std::string png_file(const Pixels& p) {
  const std::size_t row = 3 * std::size_t(p.width);
  std::string rows;
  rows.reserve((row + 1) * std::size_t(p.height));
  for (std::size_t y = 0; y < std::size_t(p.height); ++y) {
    rows += char(2);  // each byte less the one above it
    const u8* const at = p.rgb.data() + y * row;
    for (std::size_t x = 0; x < row; ++x) rows += char(at[x] - (y > 0 ? at[x - row] : 0));
  }
  const std::string header = big_endian(u32(p.width)) + big_endian(u32(p.height)) +
                             std::string("\x08\x02\0\0\0", 5);  // 8 bits, RGB
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", compressed(rows)) +
         chunk("IEND", "");
}

}  // namespace wt::chart
