// What reading and writing of npz archives share. Internal.
#pragma once
#include "warptape/core/types.h"

namespace wt::data {

// APPNOTE.TXT, version 6.3: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
inline constexpr u32 kLocalMagic = 0x04034b50, kEntryMagic = 0x02014b50, kEndMagic = 0x06054b50,
                     kDescriptorMagic = 0x08074b50;
inline constexpr u64 kLocalSize = 30, kEntrySize = 46, kEndSize = 22;
inline constexpr u16 kStored = 0, kDeflated = 8;
inline constexpr u16 kEncrypted = 1, kDescribed = 8;  // flags

u32 crc32_of(u32 crc, const void* data, u64 bytes);

}  // namespace wt::data
