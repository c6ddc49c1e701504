#include "warptape/data/bytes.h"

#include <algorithm>

#include "warptape/config.h"
#include "warptape/core/input_file.h"
#if WARPTAPE_HAS_ZLIB
#include <zlib.h>
#endif

namespace wt::data {
namespace {

#if WARPTAPE_HAS_ZLIB
// One or more gzip members. The size in the trailer is not believed: output grows as it comes.
// Stops early once there are `enough` bytes.
std::vector<u8> inflate_gzip(const std::string& path, const std::vector<u8>& in, u64 max_bytes,
                             size_t enough = ~size_t{0}) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 16) != Z_OK) throw OutOfMemory("zlib has no memory");
  struct End {
    z_stream& z;
    ~End() { inflateEnd(&z); }
  } end{z};
  std::vector<u8> out;
  z.next_in = const_cast<u8*>(in.data());
  size_t left = in.size();
  u8 buffer[1 << 16];
  for (;;) {
    if (z.avail_in == 0 && left > 0) {
      z.avail_in = uInt(std::min<size_t>(left, 1u << 30));
      left -= z.avail_in;
    }
    z.next_out = buffer;
    z.avail_out = sizeof buffer;
    const int status = inflate(&z, Z_NO_FLUSH);
    const u64 at = in.size() - left - z.avail_in;
    out.insert(out.end(), buffer, buffer + (sizeof buffer - z.avail_out));
    if (out.size() > max_bytes)
      data_error(path, at, str("inflates to more than ", max_bytes, " bytes"));
    if (out.size() >= enough) return out;
    if (status == Z_STREAM_END) {
      if (z.avail_in == 0 && left == 0) return out;
      if (inflateReset(&z) != Z_OK) data_error(path, at, "gzip member cannot be read");
    } else if (status != Z_OK) {
      data_error(path, at,
                 status == Z_BUF_ERROR ? "the gzip data ends early (truncated download?)"
                                       : str("damaged gzip data: ", z.msg ? z.msg : "?"));
    } else if (z.avail_in == 0 && left == 0 && z.avail_out != 0) {
      data_error(path, at, "the gzip data ends early (truncated download?)");
    }
  }
}
#endif

bool is_gzip(const std::vector<u8>& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

[[maybe_unused]] [[noreturn]] void no_zlib(const std::string& path) {
  throw NotAvailable(str(path,
                         " is gzip and this build has no zlib\n  Try gunzip, or install zlib1g-dev "
                         "and configure again"));
}

}  // namespace

std::vector<u8> read_bytes(const std::string& path, const ParseLimits& limits) {
  const InputFile file(path);
  if (file.size() > limits.max_bytes)
    data_error(path, 0,
               str("the file has ", file.size(), " bytes, the limit is ", limits.max_bytes));
  std::vector<u8> bytes(static_cast<size_t>(file.size()));
  file.read(0, bytes.data(), bytes.size(), "the file");
  if (!is_gzip(bytes)) return bytes;
#if WARPTAPE_HAS_ZLIB
  return inflate_gzip(path, bytes, limits.max_bytes);
#else
  no_zlib(path);
#endif
}

std::vector<u8> read_first_bytes(const std::string& path, size_t n) {
  const InputFile file(path);
  // Gzip's own header, with a file name in it, and a first block.
  constexpr size_t kGzipStart = size_t{1} << 16;
  std::vector<u8> bytes(size_t(std::min<u64>(file.size(), n + kGzipStart)));
  file.read(0, bytes.data(), bytes.size(), "the file");
  if (is_gzip(bytes)) {
#if WARPTAPE_HAS_ZLIB
    bytes = inflate_gzip(path, bytes, ~u64{0}, n);
#else
    no_zlib(path);
#endif
  }
  bytes.resize(std::min(bytes.size(), n));
  return bytes;
}

u64 content_size(const std::string& path) {
  const InputFile file(path);
  std::vector<u8> magic(size_t(std::min<u64>(file.size(), 2)));
  file.read(0, magic.data(), magic.size(), "the file");
  return is_gzip(magic) ? read_bytes(path).size() : file.size();
}

}  // namespace wt::data
