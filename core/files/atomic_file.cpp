#include "warptape/core/files/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <utility>

#include "warptape/core/files/hold_write_signals.h"
#include "warptape/core/input_file.h"

namespace wt {
namespace {

// Paths of the temporary files being written, readable from a signal handler.
struct LiveTemp {
  std::atomic<int> state{0};  // 0 free, 1 being filled, 2 set
  char path[PATH_MAX] = {};
};
constinit LiveTemp live_temps[8];
constinit std::mutex live_paths;  // between threads; a signal handler reads what is set

int publish_temp(const std::string& path) noexcept {
  if (path.size() >= PATH_MAX) return -1;
  const std::lock_guard lock(live_paths);
  for (int i = 0; i < 8; ++i) {
    int expected = 0;
    if (!live_temps[i].state.compare_exchange_strong(expected, 1)) continue;
    std::memcpy(live_temps[i].path, path.c_str(), path.size() + 1);
    live_temps[i].state.store(2);
    return i;
  }
  return -1;  // more writers than slots: only the clean-up by a second Ctrl-C misses it
}

bool is_live_temp(const std::string& path) noexcept {
  const std::lock_guard lock(live_paths);
  for (const LiveTemp& live : live_temps) {
    if (live.state.load() == 2 && path == live.path) return true;
  }
  return false;
}

std::string directory_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void cannot_write(const std::string& path, const char* action, int error) {
  throw CheckpointError(
      str(printable(path, 400), " cannot be written: ", action, ": ", std::strerror(error)));
}

constinit detail::FileOps live_ops{
    [](const char* path, int flags, unsigned mode) { return ::open(path, flags, mode); },
    [](int fd, const void* data, u64 bytes) -> long { return ::write(fd, data, bytes); },
    [](int fd, i64 bytes) { return ::fallocate(fd, 0, 0, bytes); },
    [](int fd, i64 bytes) { return ::ftruncate(fd, bytes); },
    [](int fd, unsigned mode) { return ::fchmod(fd, mode); },
    [](int fd) { return ::fsync(fd); },
    [](int fd) { return ::close(fd); },
    [](const char* from, const char* to) { return ::rename(from, to); },
};

}  // namespace

detail::FileOps& detail::file_ops() noexcept { return live_ops; }

int detail::write_all(int fd, const void* data, u64 bytes) noexcept {
  const detail::HoldWriteSignals hold;
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const u64 chunk = std::min<u64>(bytes, u64{1} << 30);
    const long wrote = live_ops.write(fd, p, chunk);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    if (wrote == 0) return EIO;
    p += wrote;
    bytes -= static_cast<u64>(wrote);
  }
  return 0;
}

AtomicFile::AtomicFile(const std::string& path, AtomicFileOptions options)
    : path_(path), options_(std::move(options)) {
  struct stat old;
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    throw CheckpointError(
        str(printable(path, 400), " cannot be written: it exists and is no regular file"));
  }
  if (exists) {
    char real[PATH_MAX];
    if (::realpath(path.c_str(), real)) path_ = real;
  }
  temp_ = path_ + ".tmp-" + std::to_string(::getpid());
  if (is_live_temp(temp_)) {
    throw CheckpointError(
        str(printable(path, 400), " cannot be written: this process is already writing it"));
  }
  const unsigned mode = exists ? old.st_mode & 0777 : 0666;
  // Whatever lies there now was left by a killed process that had our number.
  ::unlink(temp_.c_str());
  fd_ = live_ops.open(temp_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) fail("creating the temporary file", errno);
  temp_exists_ = true;
  live_slot_ = publish_temp(temp_);
  try {
    if (exists && live_ops.fchmod(fd_, mode) != 0) fail("setting its mode", errno);
    reserve();
  } catch (...) {
    discard();
    throw;
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) live_ops.close(std::exchange(fd_, -1));
  if (temp_exists_) ::unlink(temp_.c_str());
  temp_exists_ = false;
  if (live_slot_ >= 0) live_temps[std::exchange(live_slot_, -1)].state.store(0);
}

void AtomicFile::fail(const char* action, int error) const { cannot_write(path_, action, error); }

void AtomicFile::reserve() {
  if (options_.expected_bytes == 0) return;
  struct statvfs disk;
  if (::fstatvfs(fd_, &disk) == 0) {
    const double free_bytes = double(disk.f_bavail) * double(disk.f_frsize);
    if (free_bytes < 1.1 * double(options_.expected_bytes)) {
      throw CheckpointError(
          str(printable(path_, 400), " cannot be written: it needs ", options_.expected_bytes,
              " bytes and a tenth to spare, the disk has ", u64(free_bytes), " free"));
    }
  }
  const detail::HoldWriteSignals hold;
  int result;
  do {
    result = live_ops.fallocate(fd_, static_cast<i64>(options_.expected_bytes));
  } while (result != 0 && errno == EINTR);
  // Not every file system can reserve; the check above has to do there.
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) fail("reserving space", errno);
}

void AtomicFile::write(const void* data, u64 bytes) {
  if (const int error = detail::write_all(fd_, data, bytes)) fail("writing", error);
  size_ += bytes;
}

void AtomicFile::close_file() {
  // The descriptor is gone after EINTR too (Linux), and the data was synchronised before.
  if (live_ops.close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail("closing", errno);
}

void AtomicFile::sync_directory() const {
  const std::string directory = directory_of(path_);
  const int fd = live_ops.open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) fail("opening its folder", errno);
  const int result = live_ops.fsync(fd), error = errno;
  live_ops.close(fd);
  // EINVAL: a file system that cannot synchronise folders.
  if (result != 0 && error != EINVAL) fail("synchronising its folder", error);
}

void AtomicFile::commit() {
  if (options_.expected_bytes > size_ && live_ops.ftruncate(fd_, static_cast<i64>(size_)) != 0) {
    fail("cutting it to size", errno);
  }
  if (options_.durable && live_ops.fsync(fd_) != 0) fail("synchronising", errno);
  close_file();
  if (options_.verify) {
    try {
      options_.verify(temp_);
    } catch (const Error& e) {
      throw CheckpointError(
          str(printable(path_, 400),
              " cannot be written: what was written reads back wrong: ", e.what()));
    }
  }
  if (live_ops.rename(temp_.c_str(), path_.c_str()) != 0) fail("renaming", errno);
  temp_exists_ = false;
  if (live_slot_ >= 0) live_temps[std::exchange(live_slot_, -1)].state.store(0);
  if (options_.durable) sync_directory();
}

void write_file_atomically(const std::string& path, std::string_view content,
                           AtomicFileOptions options) {
  options.expected_bytes = content.size();
  AtomicFile file(path, std::move(options));
  file.write(content);
  file.commit();
}

void unlink_live_temp_files() noexcept {
  for (LiveTemp& live : live_temps) {
    if (live.state.load() == 2) ::unlink(live.path);
  }
}

int remove_stale_temp_files(const std::string& directory, double older_than) {
  DIR* const dir = ::opendir(directory.c_str());
  if (!dir) return 0;
  int removed = 0;
  while (const dirent* const entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    const auto mark = name.rfind(".tmp-");
    if (mark == name.npos || mark == 0 || mark + 5 == name.size()) continue;
    if (name.find_first_not_of("0123456789", mark + 5) != name.npos) continue;
    struct stat info;
    if (::fstatat(::dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const double written = double(info.st_mtim.tv_sec) + 1e-9 * double(info.st_mtim.tv_nsec);
    if (!S_ISREG(info.st_mode) || written >= older_than) continue;
    if (::unlinkat(::dirfd(dir), entry->d_name, 0) == 0) ++removed;
  }
  ::closedir(dir);
  return removed;
}

DirectoryLock::DirectoryLock(const std::string& directory) : directory_(directory) {
  std::error_code made;
  std::filesystem::create_directories(directory, made);
  const std::string path = directory + "/LOCK";
  // Its text is replaced below: not that of a file which a link leads to, and nobody's pipe.
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  const int reason = errno;
  if (fd_ < 0 && reason == ELOOP)
    throw CheckpointError(printable_path(path) + " cannot be written: it is a symbolic link");
  if (fd_ < 0) cannot_write(path, "opening it", made ? made.value() : reason);
  struct stat info;
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(std::exchange(fd_, -1));
    throw CheckpointError(printable_path(path) + " cannot be written: it is no regular file");
  }
  char text[512] = {};
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const ssize_t got = error == EWOULDBLOCK ? ::pread(fd_, text, sizeof text - 1, 0) : 0;
    ::close(fd_);
    if (error != EWOULDBLOCK) cannot_write(path, "locking it", error);
    std::string holder(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    throw CheckpointError(str(printable(directory, 400), " is in use by ",
                              holder.empty() ? "another process" : printable(holder, 200),
                              "; give this run another folder or wait for that one to end"));
  }
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  stale_removed_ =
      remove_stale_temp_files(directory, double(now.tv_sec) + 1e-9 * double(now.tv_nsec));
  char host[256] = "?", when[64];
  ::gethostname(host, sizeof host - 1);
  tm local;
  ::localtime_r(&now.tv_sec, &local);
  ::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &local);
  const std::string holder = str("process ", ::getpid(), " on ", host, ", started ", when, "\n");
  // The lock is the flock; the text only serves the other side's message.
  if (::ftruncate(fd_, 0) == 0) (void)!::pwrite(fd_, holder.data(), holder.size(), 0);
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

}  // namespace wt
