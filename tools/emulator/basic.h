// The short names of the emulator's code. It is loaded into the program it watches, so it uses
// nothing of that program, warptape included, and shows only CUDA's names (exports.map).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emu {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u32 kLanes = 32;  // of a warp
inline constexpr u32 kAllLanes = ~u32(0);

struct Dim3 {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64(x) * y * z; }
};

}  // namespace emu
