// What reading and writing of npz archives share. Internal.
#pragma once
#include <initializer_list>

#include "warptape/core/input_file.h"

namespace wt::data {

// APPNOTE.TXT, version 6.3: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
inline constexpr u32 kLocalMagic = 0x04034b50, kEntryMagic = 0x02014b50, kEndMagic = 0x06054b50,
                     kDescriptorMagic = 0x08074b50;
inline constexpr u64 kLocalSize = 30, kEntrySize = 46, kEndSize = 22;
inline constexpr u16 kStored = 0, kDeflated = 8;
inline constexpr u16 kEncrypted = 1, kDescribed = 8;  // flags

u32 crc32_of(u32 crc, const void* data, u64 bytes);

// Bytes [start, start + bytes) of the file; nothing but the records of the end may follow.
struct ZipDirectory {
  u64 start = 0, bytes = 0, members = 0;
};
// DataError for what does not end as an archive does, also with zip64's records.
ZipDirectory find_zip_directory(const InputFile& file);
// Those of an entry's `numbers` (size, packed size, place) that are all ones become what zip64 says
// in the entry's extra fields; false where it does not.
bool widen_zip_entry(const u8* extra, u64 bytes, std::initializer_list<u64*> numbers);

}  // namespace wt::data
