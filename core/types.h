// Fixed-width integer names. No STL beyond <cstdint>: device code includes this.
#pragma once
#include <cstdint>

namespace wt {
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// A tensor has at most this many dimensions; geometry is stored inline.
inline constexpr int kMaxDims = 8;
}  // namespace wt
