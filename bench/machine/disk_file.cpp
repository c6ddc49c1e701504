#include "warptape/bench/machine/disk_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "warptape/core/error.h"

namespace wt::bench {
namespace {

constexpr i64 kAlignment = 4096;    // of memory and places, for O_DIRECT
constexpr double kMostSeconds = 3;  // of writing, and of reading

[[noreturn]] void disk_failed(const char* what) {
  throw NotAvailable(str(what, ": ", std::strerror(errno)));
}

}  // namespace

void DiskFile::Free::operator()(void* p) const { std::free(p); }

DiskFile::DiskFile(const std::string& folder) : buffer_(std::aligned_alloc(kAlignment, kChunk)) {
  const std::string path = str(folder, "/wt_disk_", ::getpid());
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) disk_failed("opening a file");
  ::unlink(path.c_str());
  std::memset(buffer_.get(), 0x5a, kChunk);
}
DiskFile::~DiskFile() { ::close(fd_); }

bool DiskFile::direct(bool on) {
  const int flags = ::fcntl(fd_, F_GETFL);
  return flags >= 0 && ::fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Moving less than asked for is no error by itself: `if_less` is.
template <class F>
i64 DiskFile::each_chunk(i64 most, int if_less, F move) {
  const auto start = std::chrono::steady_clock::now();
  i64 at = 0;
  for (; at < most; at += kChunk) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > kMostSeconds) break;
    const i64 moved = move(buffer_.get(), at);
    if (moved >= 0 && moved < kChunk) errno = if_less;
    if (moved != kChunk) disk_failed("moving 4 MiB");
  }
  return at;
}

i64 DiskFile::write(i64 most) {
  // The system's memory takes what it gets as fast as it can be copied: the disk has to keep up, or
  // three seconds of writing are followed by minutes of fsync().
  constexpr i64 kAhead = 16 * kChunk;
  size_ = each_chunk(most, ENOSPC, [&](void* p, i64 at) {
    const i64 moved = ::pwrite(fd_, p, kChunk, at);
    if (moved != kChunk) return moved;
    ::sync_file_range(fd_, at, kChunk, SYNC_FILE_RANGE_WRITE);
    if (at >= kAhead)
      ::sync_file_range(
          fd_, at - kAhead, kChunk,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    return moved;
  });
  if (::fsync(fd_) != 0) disk_failed("fsync");
  return size_;
}
i64 DiskFile::read(i64 most) {
  return each_chunk(most, EIO, [&](void* p, i64 at) { return ::pread(fd_, p, kChunk, at); });
}

double DiskFile::forget() {
  if (::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED) != 0 || size_ == 0) return size_ ? 1 : 0;
  void* const pages = ::mmap(nullptr, size_t(size_), PROT_READ, MAP_SHARED, fd_, 0);
  if (pages == MAP_FAILED) return 1;  // nobody knows
  std::vector<unsigned char> there(size_t(size_ / ::sysconf(_SC_PAGESIZE)) + 1);
  size_t kept = 0;
  const bool told = ::mincore(pages, size_t(size_), there.data()) == 0;
  for (const unsigned char page : there) kept += page & 1;
  ::munmap(pages, size_t(size_));
  return told ? double(kept) / double(there.size() - 1) : 1;
}

std::string DiskFile::memory_kind() const {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;
  struct statfs s {};
  if (::fstatfs(fd_, &s) != 0) return {};
  return s.f_type == kTmpfs ? "tmpfs" : s.f_type == kRamfs ? "ramfs" : "";
}

}  // namespace wt::bench
