// Makes the Nth system call of wt::detail::file_ops() fail, for its life; of all threads together.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "warptape/core/files/atomic_file.h"

class FaultyFiles {
 public:
  // Call number `nth` (from 1) sets errno to `error` and fails; error 0 ends the process there, as
  // a crash would. short_writes: every write takes one byte at most.
  explicit FaultyFiles(int nth, int error, bool short_writes = false)
      : before_(wt::detail::file_ops()) {
    real() = before_;
    state() = {nth, error, short_writes};
    made() = 0;
    wt::detail::file_ops() = {
        [](const char* path, int flags, unsigned mode) {
          return hit() ? -1 : real().open(path, flags, mode);
        },
        [](int fd, const void* data, wt::u64 bytes) -> long {
          if (hit()) return -1;
          return real().write(fd, data, state().short_writes && bytes > 1 ? 1 : bytes);
        },
        [](int fd, wt::i64 bytes) { return hit() ? -1 : real().fallocate(fd, bytes); },
        [](int fd, wt::i64 bytes) { return hit() ? -1 : real().ftruncate(fd, bytes); },
        [](int fd, unsigned mode) { return hit() ? -1 : real().fchmod(fd, mode); },
        [](int fd) { return hit() ? -1 : real().fsync(fd); },
        [](int fd) {
          const bool failed = hit();  // a close that fails has closed all the same
          return real().close(fd) != 0 || failed ? (failed ? restore_errno() : -1) : 0;
        },
        [](const char* from, const char* to) { return hit() ? -1 : real().rename(from, to); },
    };
  }
  ~FaultyFiles() { wt::detail::file_ops() = before_; }
  FaultyFiles(const FaultyFiles&) = delete;

  int calls() const { return made(); }
  bool reached() const { return made() >= state().nth; }

 private:
  struct State {
    int nth, error;
    bool short_writes;
  };
  static State& state() {
    static State s{};
    return s;
  }
  static wt::detail::FileOps& real() {
    static wt::detail::FileOps r{};
    return r;
  }
  static std::atomic<int>& made() {
    static std::atomic<int> calls{0};
    return calls;
  }
  static bool hit() {
    if (++made() != state().nth) return false;
    if (state().error == 0) ::_exit(0);
    errno = state().error;
    return true;
  }
  static int restore_errno() {
    errno = state().error;
    return -1;
  }
  wt::detail::FileOps before_;
};
