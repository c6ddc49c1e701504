// Files that are either the old ones or the new ones, never neither: whatever fails and whenever
// the process is killed. Failures throw CheckpointError and leave the old file as it was. Internal.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "warptape/core/error.h"
#include "warptape/core/types.h"

namespace wt {

struct AtomicFileOptions {
  u64 expected_bytes = 0;  // reserved before the first write, so a full disk is noticed early
  bool durable = true;     // fsync file and folder: the file also survives a power loss
  // Called with the temporary file's path before it replaces the old file; a throw keeps the old.
  std::function<void(const std::string&)> verify = {};
};

// Writes "<path>.tmp-<pid>" and renames it over `path` in commit(). The mode is the old file's or
// 0666 & ~umask. A symbolic link is followed. Destroyed without commit(), it removes what it wrote.
class WT_API AtomicFile {
 public:
  explicit AtomicFile(const std::string& path, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, u64 bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();
  u64 size() const noexcept { return size_; }

 private:
  [[noreturn]] void fail(const char* action, int error) const;
  void discard() noexcept;
  void reserve();
  void sync_directory() const;
  void close_file();

  std::string path_, temp_;
  AtomicFileOptions options_;
  u64 size_ = 0;
  int fd_ = -1;
  int live_slot_ = -1;
  bool temp_exists_ = false;
};

// AtomicFile in one call.
WT_API void write_file_atomically(const std::string& path, std::string_view content,
                                  AtomicFileOptions options = {});

// Removes "*.tmp-<pid>" files in `directory` last written before `older_than` (seconds since the
// epoch) and returns how many; what cannot be removed stays. Call it under a DirectoryLock.
WT_API int remove_stale_temp_files(const std::string& directory, double older_than);

// Unlinks the temporary files that this process is writing. Async-signal-safe: for a handler that
// is about to _exit.
WT_API void unlink_live_temp_files() noexcept;

// Holds "<directory>/LOCK" for its life, so that two runs never write into one folder. The system
// drops the lock when the process ends, however it ends. Creates the folder if it is missing.
class WT_API DirectoryLock {
 public:
  // CheckpointError with the holder's process, host and start time if somebody else has it, and for
  // a LOCK that is a symbolic link or no regular file.
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  const std::string& directory() const noexcept { return directory_; }
  int stale_files_removed() const noexcept { return stale_removed_; }

 private:
  std::string directory_;
  int fd_ = -1;
  int stale_removed_ = 0;
};

namespace detail {

// Every system call by which AtomicFile and the metrics writer change the disk goes through this
// table, so that tests can fail the Nth one. Each has its namesake's result and errno.
struct FileOps {
  int (*open)(const char* path, int flags, unsigned mode);
  long (*write)(int fd, const void* data, u64 bytes);
  int (*fallocate)(int fd, i64 bytes);
  int (*ftruncate)(int fd, i64 bytes);
  int (*fchmod)(int fd, unsigned mode);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*rename)(const char* from, const char* to);
};
WT_API FileOps& file_ops() noexcept;

// Writes all of it through file_ops(), going on after short writes and EINTR. Returns 0 or errno.
// A file-size limit gives EFBIG: SIGXFSZ is held back for the duration.
WT_API int write_all(int fd, const void* data, u64 bytes) noexcept;

}  // namespace detail
}  // namespace wt
