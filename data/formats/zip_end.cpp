// Where a zip archive's directory is, by the records at its end.
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/formats/zip_parts.h"

namespace wt::data {
namespace {

constexpr u32 kWideLocatorMagic = 0x07064b50, kWideEndMagic = 0x06064b50;
constexpr u64 kWideLocatorSize = 20, kWideEndSize = 56;

// zip64: a record of wide numbers and one that says where it is lie before the end record, whose
// own numbers say all ones where they are too narrow. The wide record may have room for more, which
// could hide something: that is refused.
ZipDirectory wide_directory(const InputFile& file, const ZipDirectory& narrow, u64 end_at) {
  const std::string& path = file.path();
  u8 locator[kWideLocatorSize] = {}, end[kWideEndSize] = {};
  if (end_at < kWideLocatorSize + kWideEndSize)
    data_error(path, end_at, "zip64, and its record is not there");
  const u64 locator_at = end_at - kWideLocatorSize, at = locator_at - kWideEndSize;
  file.read(locator_at, locator, sizeof locator, "the place of the zip64 record");
  file.read(at, end, sizeof end, "the zip64 record");
  if (little<u32>(locator) != kWideLocatorMagic || little<u32>(end) != kWideEndMagic ||
      little<u64>(locator + 8) != at || little<u64>(end + 4) != kWideEndSize - 12)
    data_error(path, end_at, "zip64, and its record is not there");
  const ZipDirectory d{little<u64>(end + 48), little<u64>(end + 40), little<u64>(end + 32)};
  if (little<u32>(locator + 4) || little<u32>(locator + 16) > 1 || little<u32>(end + 16) ||
      little<u32>(end + 20) || little<u64>(end + 24) != d.members)
    data_error(path, at, "a zip archive in parts");
  if ((narrow.members != 0xffff && narrow.members != d.members) ||
      (narrow.bytes != 0xffffffff && narrow.bytes != d.bytes) ||
      (narrow.start != 0xffffffff && narrow.start != d.start))
    data_error(path, at, "the zip64 record and the end of the zip directory differ");
  return d;
}

}  // namespace

ZipDirectory find_zip_directory(const InputFile& file) {
  const std::string& path = file.path();
  const u64 size = file.size();
  // np.savez writes no comment, so the end record is the last 22 bytes; one with a comment could
  // hide a second directory in it.
  u8 end[kEndSize] = {};
  if (size < kEndSize)
    data_error(path, size, "no room for the zip directory (truncated download?)");
  u64 end_at = size - kEndSize;
  file.read(end_at, end, kEndSize, "the end of the zip directory");
  if (little<u32>(end) != kEndMagic)
    data_error(path, end_at, "the zip directory does not end here (truncated download?)");
  const u16 disk = little<u16>(end + 4), first_disk = little<u16>(end + 6);
  const u16 here = little<u16>(end + 8), total = little<u16>(end + 10);
  if (disk || first_disk || here != total) data_error(path, end_at, "a zip archive in parts");
  if (little<u16>(end + 20) != 0)
    data_error(path, end_at + 20, "the zip archive claims a comment, which is not there");
  ZipDirectory d{little<u32>(end + 16), little<u32>(end + 12), total};
  const bool narrow = d.members != 0xffff && d.bytes != 0xffffffff && d.start != 0xffffffff;
  const u64 numbers_at = end_at + 12;
  u8 locator[4] = {};
  if (end_at >= kWideLocatorSize)
    file.read(end_at - kWideLocatorSize, locator, sizeof locator, "the end of the zip directory");
  // Some write the wide record always.
  if (!narrow || (d.start + d.bytes != end_at && little<u32>(locator) == kWideLocatorMagic)) {
    d = wide_directory(file, d, end_at);
    end_at -= kWideLocatorSize + kWideEndSize;
  }
  if (d.start > end_at || d.bytes != end_at - d.start)
    data_error(path, numbers_at,
               str("the zip directory of ", d.bytes, " bytes at byte ", d.start,
                   " does not reach byte ", end_at));
  return d;
}

bool widen_zip_entry(const u8* extra, u64 bytes, std::initializer_list<u64*> numbers) {
  for (u64 at = 0; at + 4 <= bytes;) {
    const u64 length = little<u16>(extra + at + 2), next = at + 4 + length;
    if (next > bytes) return false;
    if (constexpr u16 kWide = 1; little<u16>(extra + at) == kWide) {
      u64 from = at + 4;
      for (u64* const n : numbers) {
        if (*n != 0xffffffff) continue;
        if (from + 8 > next) return false;
        *n = little<u64>(extra + from);
        from += 8;
      }
      return true;
    }
    at = next;
  }
  return false;
}

}  // namespace wt::data
