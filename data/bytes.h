// The content of files, plain or gzip, within limits. Internal to the readers of this folder.
#pragma once
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
// before it pays for the rest. A gzip file (by its magic, not its name) is inflated on the way.
// Throws DataError with the path and offset for a missing, damaged or oversized file (declared
// sizes are not trusted), and NotAvailable for gzip in a build without zlib.
class Content {
 public:
  explicit Content(const std::string& path, const ParseLimits& limits = {});
  ~Content();
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;

  const std::string& path() const { return file_.path(); }
  u64 file_size() const { return file_.size(); }
  // Of the content; unknown of a gzip file.
  std::optional<u64> size() const;
  // The most that there can be: of a gzip file what deflate reaches and the limits allow.
  u64 most() const { return most_; }

  // The next `n` bytes; fewer only at the end.
  u64 read(void* dst, u64 n);
  // The next `n` bytes behind those in `out`, which grows by what there is.
  void append(std::vector<u8>& out, u64 n);

 private:
  class Inflater;
  InputFile file_;
  u64 most_ = 0, at_ = 0;
  std::unique_ptr<Inflater> inflater_;  // of a gzip file
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
std::vector<u8> read_first_bytes(const std::string& path, size_t n);
// How many bytes read_bytes() would give; a gzip file must be inflated for that.
u64 content_size(const std::string& path);

}  // namespace wt::data
