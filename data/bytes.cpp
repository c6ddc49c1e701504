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
std::vector<u8> inflate_gzip(const std::string& path, const std::vector<u8>& in, u64 max_bytes) {
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

}  // namespace

std::vector<u8> read_bytes(const std::string& path, const ParseLimits& limits) {
  const InputFile file(path);
  if (file.size() > limits.max_bytes)
    data_error(path, 0,
               str("the file has ", file.size(), " bytes, the limit is ", limits.max_bytes));
  std::vector<u8> bytes(static_cast<size_t>(file.size()));
  file.read(0, bytes.data(), bytes.size(), "the file");
  if (bytes.size() < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b) return bytes;
#if WARPTAPE_HAS_ZLIB
  return inflate_gzip(path, bytes, limits.max_bytes);
#else
  throw NotAvailable(str(path,
                         " is gzip and this build has no zlib\n  Try gunzip, or install zlib1g-dev "
                         "and configure again"));
#endif
}

}  // namespace wt::data
