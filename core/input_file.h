// Reading files from strangers: a regular file, read with pread into the caller's memory. Never
// mapped, because a file that shrinks under a mapping raises SIGBUS.
#pragma once
#include <string>
#include <string_view>

#include "warptape/core/error.h"
#include "warptape/core/types.h"

namespace wt {

// Throws DataError "<path>: at byte <offset>: <message>"; every parser reports through it.
[[noreturn]] WT_COLD WT_API void data_error(const std::string& path, u64 offset,
                                            const std::string& message);

// A name made safe for messages and logs: control characters and bytes above ASCII become \xNN, and
// what is longer than `limit` characters is cut and marked "...". Whatever a file or a command line
// brings goes through here on its way to a terminal or into an error, or it could move the cursor,
// hide lines or forge them.
WT_API std::string printable(std::string_view text, std::size_t limit = 80);
inline std::string printable_path(std::string_view path) { return printable(path, 400); }

// A text of several lines in UTF-8, line feeds and tabs kept; every other control character (also
// those of two bytes) and what is no UTF-8 becomes \xNN. For messages as a whole, in which names
// have been made printable before.
WT_API std::string printable_lines(std::string_view text);

class WT_API InputFile {
 public:
  // DataError if `path` does not exist, cannot be read or is not a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) noexcept;

  const std::string& path() const noexcept { return path_; }
  u64 size() const noexcept { return size_; }

  // Fills `dst` with bytes [offset, offset + bytes) or throws DataError naming `what`.
  void read(u64 offset, void* dst, u64 bytes, std::string_view what) const;

 private:
  std::string path_;
  u64 size_ = 0;
  int fd_ = -1;
};

}  // namespace wt
