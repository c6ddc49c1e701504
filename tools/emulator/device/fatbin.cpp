#include "device/fatbin.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace emu {
namespace {

struct Header {
  u32 magic;
  u16 version, header_bytes;
  u64 bytes;
};
struct Entry {
  u16 kind, attributes;  // 1: PTX, 2: machine code
  u32 header_bytes;
  u64 bytes;
  u32 compressed_bytes, unknown;
  u16 minor, major;
  u32 target, name_at, name_bytes;
  u64 flags, zero, plain_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(Entry) == 64);
constexpr u32 kMagic = 0xba55ed50;
constexpr u64 kZstd = 0x8000, kLz4 = 0x2000;

// The LZ4 block format: literals, then a match of at least 4 bytes that may overlap its copy.
bool unpack_lz4(const u8* p, const u8* end, std::string& out, size_t size) {
  const auto length = [&](u32 n) -> size_t {
    size_t total = n;
    if (n == 15)
      while (p < end) {
        total += *p;
        if (*p++ != 255) break;
      }
    return total;
  };
  out.reserve(size);
  while (p < end) {
    const u8 token = *p++;
    const size_t literals = length(token >> 4);
    if (literals > size_t(end - p)) return false;
    out.append(reinterpret_cast<const char*>(p), literals);
    p += literals;
    if (p >= end || out.size() >= size) break;
    if (end - p < 2) return false;
    const size_t back = size_t(p[0] | p[1] << 8);
    p += 2;
    const size_t match = length(token & 15) + 4;
    if (back == 0 || back > out.size() || out.size() + match > size) return false;
    for (size_t i = 0; i < match; ++i) out.push_back(out[out.size() - back]);
  }
  return out.size() == size;
}

std::string text_of(const Entry& e, const u8* body) {
  std::string text;
  if (e.flags & kZstd) {
    text.resize(e.plain_bytes);
    const size_t n = ZSTD_decompress(text.data(), text.size(), body, e.compressed_bytes);
    if (ZSTD_isError(n)) return {};
    text.resize(n);
  } else if (e.flags & kLz4) {
    if (!unpack_lz4(body, body + e.compressed_bytes, text, e.plain_bytes)) return {};
  } else {
    text.assign(reinterpret_cast<const char*>(body), e.bytes);
  }
  text.resize(strnlen(text.data(), text.size()));
  return text;
}

// ".target sm_90a": the letter is in the text only.
char suffix_of(const std::string& ptx) {
  const size_t at = ptx.find("\n.target ");
  if (at == std::string::npos) return 0;
  size_t i = ptx.find("sm_", at);
  if (i == std::string::npos) return 0;
  for (i += 3; i < ptx.size() && ptx[i] >= '0' && ptx[i] <= '9';) ++i;
  return i < ptx.size() && (ptx[i] == 'a' || ptx[i] == 'f') ? ptx[i] : char(0);
}

// A later part without what only the first may say, and without the files its lines are numbered
// by. Dynamic shared memory is declared once.
void append_part(std::string& whole, const std::string& part) {
  constexpr const char* kDropped[] = {".version", ".target", ".address_size", ".file", ".loc"};
  for (size_t at = 0; at < part.size();) {
    const size_t end = std::min(part.find('\n', at), part.size());
    const std::string line = part.substr(at, end - at);
    at = end + 1;
    const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    bool dropped =
        line.compare(begin, 15, ".extern .shared") == 0 && whole.find(line) != std::string::npos;
    for (const char* word : kDropped)
      dropped = dropped || line.compare(begin, std::strlen(word), word) == 0;
    if (!dropped) whole += line + "\n";
  }
}

}  // namespace

std::string ptx_for(const void* fat_binary, u32 capability, std::string* what_there_is) {
  Header h;
  std::memcpy(&h, fat_binary, sizeof h);
  if (h.magic != kMagic) {
    *what_there_is = "no fat binary that this emulator knows";
    return {};
  }
  const u8* p = static_cast<const u8*>(fat_binary) + h.header_bytes;
  const u8* end = p + h.bytes;
  std::string best;
  u32 best_rank = 0;
  while (p + sizeof(Entry) <= end) {
    Entry e;
    std::memcpy(&e, p, sizeof e);
    const u8* body = p + e.header_bytes;
    p = body + e.bytes;
    *what_there_is += (what_there_is->empty() ? "" : ", ") +
                      std::string(e.kind == 1 ? "PTX for sm_" : "machine code for sm_") +
                      std::to_string(e.target);
    if (e.kind != 1 || e.target > capability || e.target * 2 < best_rank) continue;
    std::string text = text_of(e, body);
    if (text.empty()) {
      *what_there_is += " (damaged)";
      continue;
    }
    const char suffix = suffix_of(text);
    if (suffix) what_there_is->push_back(suffix);
    // Of a specific architecture: it runs there alone; of a family: on its later members too.
    if (suffix == 'a' && e.target != capability) continue;
    if (suffix == 'f' && e.target / 10 != capability / 10) continue;
    const u32 rank = e.target * 2 + (suffix != 0);
    if (rank <= best_rank) continue;
    best_rank = rank;
    best = std::move(text);
  }
  if (what_there_is->empty()) *what_there_is = "nothing";
  return best;
}

std::string linked_ptx_for(const void* const* fat_binaries, u32 capability,
                           std::string* what_there_is) {
  std::string whole;
  for (; *fat_binaries; ++fat_binaries) {
    std::string what;
    const std::string part = ptx_for(*fat_binaries, capability, &what);
    *what_there_is += (what_there_is->empty() ? "" : "; ") + what;
    if (whole.empty())
      whole = part;
    else
      append_part(whole, part);
  }
  return whole;
}

}  // namespace emu
