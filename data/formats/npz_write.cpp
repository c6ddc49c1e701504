// Writing of npy files and npz archives.
#include <algorithm>
#include <array>
#include <set>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/npy.h"
#include "warptape/data/formats/zip_parts.h"
#include "warptape/data/npz.h"
#if WARPTAPE_HAS_ZLIB
#include <zlib.h>
#endif

namespace wt::data {

u32 crc32_of(u32 crc, const void* data, u64 bytes) {
#if WARPTAPE_HAS_ZLIB
  return bytes ? u32(crc32_z(crc, static_cast<const Bytef*>(data), bytes)) : crc;
#else
  static const auto table = [] {
    std::array<u32, 256> t{};
    for (u32 i = 0; i < 256; ++i) {
      t[i] = i;
      for (int k = 0; k < 8; ++k) t[i] = (t[i] >> 1) ^ (t[i] & 1 ? 0xedb88320u : 0);
    }
    return t;
  }();
  crc = ~crc;
  for (const u8* p = static_cast<const u8*>(data); bytes > 0; --bytes)
    crc = table[(crc ^ *p++) & 255] ^ (crc >> 8);
  return ~crc;
#endif
}

void write_npy(const std::string& path, const Tensor& t) {
  const Tensor host = t.to(Device::cpu()).contiguous();
  const Shape shape = host.shape();
  const std::vector<i64> sizes(shape.begin(), shape.end());
  wt::write_npy(path, host.dtype(), sizes, host.impl()->data);
}

namespace {

template <class T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// The fields that a local header and a directory entry share.
void put_common(std::string& out, u32 crc, u32 size, const std::string& file) {
  put<u16>(out, 20), put<u16>(out, 0), put<u16>(out, kStored);
  put<u16>(out, 0), put<u16>(out, 0x21);  // 1980-01-01: equal arrays give equal files
  put<u32>(out, crc), put<u32>(out, size), put<u32>(out, size);
  put<u16>(out, u16(file.size())), put<u16>(out, 0);
}

void check_name(const std::string& name, const std::set<std::string>& seen) {
  const bool plain = !name.empty() && name.size() < 1000 && name[0] != '.' &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
                     });
  if (!plain) throw UsageError("[write_npz] '" + printable(name) + "' is no name for an array");
  if (seen.contains(name)) throw UsageError("[write_npz] '" + name + "' is there twice");
}

}  // namespace

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  std::set<std::string> seen;
  std::vector<Tensor> hosts;
  u64 total = kEndSize;
  for (const auto& [name, t] : arrays) {
    check_name(name, seen);
    seen.insert(name);
    hosts.push_back(t.to(Device::cpu()).contiguous());
    total += 1024 + 2 * name.size() + u64(t.numel()) * u64(item_size(t.dtype()));
  }
  if (total >= 0xffffffff || arrays.size() >= 0xffff)
    throw UsageError(str("[write_npz] ", arrays.size(), " arrays of ", total,
                         " bytes pass what a zip archive holds (65534, 4 GiB)"));
  AtomicFile file(path, {.expected_bytes = total});
  std::string directory;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string name = arrays[i].first + ".npy";
    const Shape shape = hosts[i].shape();
    const std::string header =
        wt::detail::npy_header(hosts[i].dtype(), std::vector<i64>(shape.begin(), shape.end()));
    const u64 bytes = u64(hosts[i].numel()) * u64(item_size(hosts[i].dtype()));
    const u32 crc =
        crc32_of(crc32_of(0, header.data(), header.size()), hosts[i].impl()->data, bytes);
    const u32 at = u32(file.size());
    std::string local;
    put(local, kLocalMagic);
    put_common(local, crc, u32(header.size() + bytes), name);
    file.write(local + name + header);
    file.write(hosts[i].impl()->data, bytes);
    put(directory, kEntryMagic);
    put<u16>(directory, 20);
    put_common(directory, crc, u32(header.size() + bytes), name);
    put<u16>(directory, 0), put<u16>(directory, 0), put<u16>(directory, 0);
    put<u32>(directory, 0), put<u32>(directory, at);
    directory += name;
  }
  const u32 start = u32(file.size());
  std::string end;
  put(end, kEndMagic);
  put<u16>(end, 0), put<u16>(end, 0);
  put<u16>(end, u16(hosts.size())), put<u16>(end, u16(hosts.size()));
  put<u32>(end, u32(directory.size())), put<u32>(end, start), put<u16>(end, 0);
  file.write(directory + end);
  file.commit();
}

}  // namespace wt::data
