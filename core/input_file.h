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

// `text` made safe for messages and logs: control characters and bytes above ASCII become \xNN,
// and what is longer than `limit` characters is cut and marked "...".
WT_API std::string printable(std::string_view text, std::size_t limit = 80);

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
