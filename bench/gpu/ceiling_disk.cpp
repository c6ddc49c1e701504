// What a folder's disk takes and gives back in a second: one file, written, synchronised, read.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr i64 kChunk = i64{4} << 20;
constexpr i64 kAlignment = 4096;    // of memory and places, for O_DIRECT
constexpr double kMostSeconds = 3;  // of writing, and of reading: a slow disk is told by less

struct Free {
  void operator()(void* p) const { std::free(p); }
};

// A file without a name, so that whoever kills the process leaves none behind.
class DiskFile {
 public:
  explicit DiskFile(const std::string& folder) : buffer_(std::aligned_alloc(kAlignment, kChunk)) {
    const std::string path = str(folder, "/wt_disk_", ::getpid());
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    fd_ = ::open(path.c_str(), flags | O_DIRECT, 0600);
    direct_ = fd_ >= 0;
    if (fd_ < 0 && errno == EINVAL) {
      ::unlink(path.c_str());
      fd_ = ::open(path.c_str(), flags, 0600);
    }
    if (fd_ < 0) fail("opening a file");
    ::unlink(path.c_str());
    std::memset(buffer_.get(), 0x5a, kChunk);
  }
  ~DiskFile() { ::close(fd_); }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  const char* how() const { return direct_ ? "direct" : "cached"; }

  // Bytes that were written, and are on the disk.
  i64 write(i64 most) {
    const i64 done =
        each_chunk(most, [&](void* p, i64 at) { return ::pwrite(fd_, p, kChunk, at); });
    if (::fsync(fd_) != 0) fail("fsync");
    if (!direct_) ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    return done;
  }
  i64 read(i64 most) {
    return each_chunk(most, [&](void* p, i64 at) { return ::pread(fd_, p, kChunk, at); });
  }

 private:
  template <class F>
  i64 each_chunk(i64 most, F move) {
    const auto start = Clock::now();
    i64 at = 0;
    for (; at < most; at += kChunk) {
      if (Clock::now() - start > std::chrono::duration<double>(kMostSeconds)) break;
      if (move(buffer_.get(), at) != kChunk) fail("moving 4 MiB");
    }
    return at;
  }
  [[noreturn]] static void fail(const char* what) {
    throw NotAvailable(str(what, ": ", std::strerror(errno)));
  }

  std::unique_ptr<void, Free> buffer_;
  int fd_ = -1;
  bool direct_ = false;
};

Row disk_row(const char* what, const char* how, i64 bytes, Clock::time_point start) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  Row r{.bench = "ceiling_disk", .impl = str(what, ", ", how), .shape = std::to_string(bytes)};
  r.dtype = "u8";
  r.time = {us, us, us, us, 1};
  r.bytes = double(bytes);
  return r;
}

}  // namespace

// A disk that cannot be measured is no fault of the device.
void measure_disk(const BenchOptions& o, RowFile& rows) {
  const i64 most = at_full_size(o) ? i64{256} << 20 : kChunk;
  try {
    DiskFile file(o.disk);
    auto start = Clock::now();
    const i64 written = file.write(most);
    rows.keep(disk_row("write", file.how(), written, start));
    start = Clock::now();
    rows.keep(disk_row("read", file.how(), file.read(written), start));
  } catch (const NotAvailable& e) {
    Row r{.bench = "ceiling_disk", .impl = "-", .shape = "-", .dtype = "u8"};
    r.check = str("SKIPPED: ", printable_path(o.disk), ": ", e.what());
    rows.keep(r);
  }
}

}  // namespace wt::bench
