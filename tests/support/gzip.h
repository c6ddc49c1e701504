// Gzip files without a compressor: what any content becomes in stored blocks, and bombs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace wt_test {

inline std::uint32_t crc32_of(std::string_view data) {
  std::uint32_t crc = ~0u;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}
inline std::string little_endian(std::uint32_t v) {
  return {char(v), char(v >> 8), char(v >> 16), char(v >> 24)};
}

// One member around deflate data.
inline std::string gzip_member(const std::string& deflated, std::string_view content) {
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + deflated +
         little_endian(crc32_of(content)) + little_endian(std::uint32_t(content.size()));
}

// Of less than 65536 bytes.
inline std::string gzip_stored(std::string_view content) {
  const auto n = std::uint16_t(content.size()), other = std::uint16_t(~n);
  const std::string length{char(n), char(n >> 8), char(other), char(other >> 8)};
  return gzip_member("\x01" + length + std::string(content), content);
}

// 1 + 258 * times bytes of 0 in one block: 13 bits for 258 of them.
struct ZeroBits {
  std::string bytes;
  int used = 0;
  void put(unsigned value, int bits) {  // the highest bit first, as Huffman codes lie
    for (int i = bits - 1; i >= 0; --i) {
      if (used % 8 == 0) bytes += '\0';
      bytes.back() = char(bytes.back() | int(value >> i & 1) << used % 8);
      ++used;
    }
  }
};
inline std::string deflated_zeros(int times) {
  ZeroBits out;
  out.put(1, 1), out.put(2, 2);  // the last block, of fixed codes
  out.put(0x30, 8);              // a zero
  for (int i = 0; i < times; ++i) out.put(0xc5, 8), out.put(0, 5);  // 258 more, from one byte back
  out.put(0, 7);
  return out.bytes;
}
inline std::string gzip_zeros(int times) {
  return gzip_member(deflated_zeros(times), std::string(size_t(1 + 258 * times), '\0'));
}

}  // namespace wt_test
