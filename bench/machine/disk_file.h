// A file that is written and read to learn what its disk does. Internal.
#pragma once
#include <memory>
#include <string>

#include "warptape/core/types.h"

namespace wt::bench {

// Without a name in the folder, so that whoever kills the process leaves nothing behind. What fails
// throws NotAvailable with the system's words.
class DiskFile {
 public:
  static constexpr i64 kChunk = i64{4} << 20;  // of one call

  explicit DiskFile(const std::string& folder);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  // Past the system's memory from now on (O_DIRECT), or through it. False: this file system
  // refuses.
  bool direct(bool on);
  // Whole chunks, at most so many bytes or three seconds of them: a slow disk is told by less.
  // write: bytes that are on the disk. read: from the beginning.
  i64 write(i64 most);
  i64 read(i64 most);
  // Asks the system to keep nothing of it in memory. The part, 0 to 1, that it keeps all the same.
  double forget();
  // "tmpfs" where the file lies in memory and on no disk; else empty.
  std::string memory_kind() const;

 private:
  template <class F>
  i64 each_chunk(i64 most, int if_less, F move);
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> buffer_;
  int fd_ = -1;
  i64 size_ = 0;
};

}  // namespace wt::bench
