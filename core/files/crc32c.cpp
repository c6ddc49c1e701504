#include "warptape/core/files/crc32c.h"

#include <array>
#include <cstring>

namespace wt {
namespace {

using CrcTables = std::array<std::array<u32, 256>, 8>;

// Slicing by 8: tables[k][b] is the CRC of byte b followed by k zero bytes.
constexpr CrcTables make_crc_tables() {
  CrcTables t{};
  for (u32 b = 0; b < 256; ++b) {
    u32 crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
    t[0][b] = crc;
  }
  for (u32 b = 0; b < 256; ++b) {
    for (int k = 1; k < 8; ++k) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 255];
  }
  return t;
}
constexpr CrcTables kCrcTables = make_crc_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) u32 crc32c_sse42(const u8* p, std::size_t n, u32 crc) {
  u64 wide = crc;
  for (; n >= 8; p += 8, n -= 8) {
    u64 word;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  u32 narrow = static_cast<u32>(wide);
  for (; n > 0; ++p, --n) narrow = __builtin_ia32_crc32qi(narrow, *p);
  return narrow;
}
#endif

}  // namespace

u32 detail::crc32c_portable(const void* data, std::size_t n, u32 crc) {
  const u8* p = static_cast<const u8*>(data);
  crc = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    const u32 low = crc ^ (u32{p[0]} | u32{p[1]} << 8 | u32{p[2]} << 16 | u32{p[3]} << 24);
    crc = kCrcTables[7][low & 255] ^ kCrcTables[6][low >> 8 & 255] ^
          kCrcTables[5][low >> 16 & 255] ^ kCrcTables[4][low >> 24] ^ kCrcTables[3][p[4]] ^
          kCrcTables[2][p[5]] ^ kCrcTables[1][p[6]] ^ kCrcTables[0][p[7]];
  }
  for (; n > 0; ++p, --n) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ *p) & 255];
  return ~crc;
}

u32 crc32c(const void* data, std::size_t bytes, u32 crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~crc32c_sse42(static_cast<const u8*>(data), bytes, ~crc);
#endif
  return detail::crc32c_portable(data, bytes, crc);
}

}  // namespace wt
