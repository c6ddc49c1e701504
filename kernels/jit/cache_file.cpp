#include "warptape/kernels/jit/cache_file.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "warptape/core/cache_folder.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/input_file.h"

namespace wt::jit {
namespace {

constexpr std::string_view kFileMagic = "wt-jit 1";
struct FileHead {
  char magic[8];
  u32 crc, zero;
  u64 key, entry, code;
};
static_assert(sizeof(FileHead) == 40);
constexpr u64 kChecked = 12;                     // where the checksum's bytes begin
constexpr u64 kMostKernelFile = u64{256} << 20;  // of a kernel that anybody would wait for

u64 hash_of_key(std::string_view bytes) {  // FNV-1a
  u64 h = 0xCBF29CE484222325u;
  for (const char c : bytes) h = (h ^ u8(c)) * 0x100000001B3u;
  return h;
}

// "<a.h>" of "#include <a.h>"; empty: the line includes nothing.
std::string_view included(std::string_view line) {
  const auto skip = [&](std::string_view what) {
    const size_t at = line.find_first_not_of(" \t");
    line.remove_prefix(std::min(at, line.size()));
    if (!line.starts_with(what)) return false;
    line.remove_prefix(what.size());
    return true;
  };
  if (!skip("#") || !skip("include")) return {};
  skip("");
  return line;
}

}  // namespace

std::string key_of(const KernelSource& s, const std::string& arch, const std::string& nvrtc) {
  std::string key = str("NVRTC ", nvrtc, "\n", arch, "\n");
  const auto add = [&](const std::string& part) { key += str(part.size(), ":", part, "\n"); };
  add(s.name);
  for (const std::string& o : s.options) add(o);
  key += "source\n";
  add(s.text);
  return key;
}

bool can_be_kept(const KernelSource& s) {
  for (const std::string& o : s.options)
    if (o.starts_with("-include") || o.starts_with("--pre-include")) return false;
  std::string_view rest = s.text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view file = included(rest.substr(0, end));
    if (!file.empty() && file[0] != '<') return false;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

std::string kernel_cache_folder() {
  if (const char* asked = std::getenv("WT_KERNEL_CACHE"); asked && *asked)
    return std::string_view(asked) == "off" ? "" : asked;
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : folder + "/kernels";
}

std::string cache_path(const std::string& folder, const std::string& key) {
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx.kernel",
                static_cast<unsigned long long>(hash_of_key(key)));
  return folder + name;
}

std::optional<KernelCode> read_kernel_file(const std::string& path, const std::string& key) {
  const InputFile file(path);
  FileHead head;
  file.read(0, &head, sizeof head, "the head of a compiled kernel");
  if (std::string_view(head.magic, sizeof head.magic) != kFileMagic)
    data_error(path, 0, "this is no compiled kernel");
  if (file.size() > kMostKernelFile) data_error(path, 0, "too large for a compiled kernel");
  u64 left = file.size() - sizeof head;
  u64 at = offsetof(FileHead, key);
  for (const u64 bytes : {head.key, head.entry, head.code}) {
    if (bytes > left)
      data_error(path, at, str("a part of ", bytes, " bytes, of which ", left, " are there"));
    left -= bytes;
    at += sizeof bytes;
  }
  if (left) data_error(path, file.size() - left, str(left, " bytes behind the last part"));
  std::string body(size_t(file.size() - sizeof head), '\0');
  file.read(sizeof head, body.data(), body.size(), "a compiled kernel");
  const u32 crc =
      crc32c(body.data(), body.size(),
             crc32c(reinterpret_cast<const char*>(&head) + kChecked, sizeof head - kChecked));
  if (crc != head.crc)
    data_error(path, offsetof(FileHead, crc), "its checksum is another one: it is damaged");
  if (std::string_view(body).substr(0, head.key) != key) return std::nullopt;
  return KernelCode{body.substr(head.key, head.entry), body.substr(head.key + head.entry)};
}

void write_kernel_file(const std::string& path, const std::string& key, const KernelCode& code) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;  // the write names what is wrong
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  FileHead head{{}, 0, 0, key.size(), code.entry.size(), code.code.size()};
  std::memcpy(head.magic, kFileMagic.data(), sizeof head.magic);
  const std::string body = key + code.entry + code.code;
  head.crc =
      crc32c(body.data(), body.size(),
             crc32c(reinterpret_cast<const char*>(&head) + kChecked, sizeof head - kChecked));
  AtomicFile file(path, {.expected_bytes = sizeof head + body.size(), .durable = false});
  file.write(&head, sizeof head);
  file.write(body);
  file.commit();
}

}  // namespace wt::jit
