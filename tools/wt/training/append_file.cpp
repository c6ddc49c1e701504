#include "warptape/tools/wt/training/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"

namespace wt::tools {

constexpr std::size_t kMostWaiting = std::size_t{16} << 20;

AppendFile::AppendFile(const std::string& path, bool fresh) : path_(path) {
  // O_NONBLOCK: opening a pipe must not wait for its reader; regular files do not know it.
  // O_NOFOLLOW: a stranger's folder may have links to files that are none of the run's.
  const int flags =
      O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | (fresh ? O_EXCL : 0);
  fd_ = detail::file_ops().open(path.c_str(), flags, 0666);
  if (fd_ < 0 && errno == ELOOP)
    throw CheckpointError(printable_path(path) + " cannot be written: it leads to another file");
  if (fd_ < 0 && errno != ENXIO) fail("opening", errno);
  struct stat info;
  if (fd_ < 0 || ::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd_ >= 0) detail::file_ops().close(std::exchange(fd_, -1));
    throw CheckpointError(printable_path(path) + " cannot be written: it is no regular file");
  }
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  if (end > 0) size_ = static_cast<u64>(end);
}

AppendFile::~AppendFile() {
  try {
    if (!waiting_.empty()) write_waiting();
  } catch (const CheckpointError&) {  // somebody was told when it first failed
  }
  if (fd_ >= 0) detail::file_ops().close(fd_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      waiting_(std::exchange(other.waiting_, {})),
      size_(other.size_),
      fd_(std::exchange(other.fd_, -1)),
      torn_(other.torn_) {}

void AppendFile::fail(const char* action, int error) const {
  throw CheckpointError(
      str(printable(path_, 400), " cannot be written: ", action, ": ", std::strerror(error)));
}

bool AppendFile::cut_back() noexcept {
  return detail::file_ops().ftruncate(fd_, static_cast<i64>(size_)) == 0;
}

void AppendFile::cut(u64 size) {
  if (detail::file_ops().ftruncate(fd_, static_cast<i64>(size)) != 0)
    fail("cutting it back", errno);
  size_ = size;
  torn_ = false;
}

void AppendFile::append(std::string_view record) {
  if (waiting_.size() + record.size() <= kMostWaiting) waiting_ += record;
  write_waiting();
}

void AppendFile::write_waiting() {
  if (torn_ && !cut_back()) fail("cutting off a torn record", errno);
  torn_ = false;
  if (const int error = detail::write_all(fd_, waiting_.data(), waiting_.size())) {
    torn_ = !cut_back();
    fail("writing", error);
  }
  size_ += waiting_.size();
  waiting_.clear();
}

void AppendFile::flush() {
  if (!waiting_.empty()) write_waiting();
  if (detail::file_ops().fsync(fd_) != 0) fail("synchronising", errno);
}

}  // namespace wt::tools
