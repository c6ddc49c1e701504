// The content of files, plain, gzip or xz, within limits. Internal to the readers of this folder.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/core/parse_limits.h"

namespace wt::data {

inline constexpr u64 kDeflateRatio =
    1032;  // the most that deflate reaches: 258 bytes from two bits

// A file's content from its beginning to its end, piece by piece, so that a reader sees a header
// before it pays for the rest. A gzip or xz file (by its magic, not its name; also several joined)
// is inflated on the way. Throws DataError with the path and offset for a missing, damaged or
// oversized file (declared sizes are not trusted) and for xz data that needs more than 128 MiB to
// be unpacked, NotAvailable for gzip in a build without zlib and xz in one without liblzma.
class Content {
 public:
  // `zlib`: the file is a zlib stream. Only its first two bytes would tell, with which text and
  // numbers may begin too: the caller has to know.
  explicit Content(const std::string& path, const ParseLimits& limits = {}, bool zlib = false);
  ~Content();
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;

  const std::string& path() const { return file_.path(); }
  u64 file_size() const { return file_.size(); }
  // Of the content; unknown of a packed file.
  std::optional<u64> size() const;
  // The most that there can be: of a packed file what its format reaches and the limits allow.
  u64 most() const { return most_; }

  // The next `n` bytes; fewer only at the end.
  u64 read(void* dst, u64 n);
  // The next `n` bytes behind those in `out`, which grows by what there is.
  void append(std::vector<u8>& out, u64 n);

 private:
  class Unpacker;
  class Gzip;
  class Xz;
  InputFile file_;
  u64 most_ = 0, at_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // of a packed file
};

// The content of `path`, as Content reads it.
std::vector<u8> read_bytes(const std::string& path, const ParseLimits& limits = {});
// The whole content of a text file. A NUL byte is refused with its line, and looked for on the way:
// a file that is no text, a large one full of holes above all, is refused by its first piece.
std::vector<u8> read_text(const std::string& path, const ParseLimits& limits = {});
inline std::string_view text_of(const std::vector<u8>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// At most its first `n` bytes (inflated), reading little more than these from the disk.
std::vector<u8> read_first_bytes(const std::string& path, size_t n, bool zlib = false);
// How many bytes read_bytes() would give; a packed file must be inflated for that.
u64 content_size(const std::string& path);

// A number as the machine has it, which is little-endian.
template <class T>
T little(const u8* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace wt::data
