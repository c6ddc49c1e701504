// Writes that fail instead of ending the process. Internal.
#pragma once
#include <signal.h>

#include <cerrno>
#include <ctime>

namespace wt::detail {

// Writing past RLIMIT_FSIZE kills the process by SIGXFSZ, into a broken pipe by SIGPIPE. A library
// must not change the process's handlers, so the two are blocked in this thread for the life of
// this and swallowed; the write fails with EFBIG or EPIPE. errno stays as it is.
class HoldWriteSignals {
 public:
  HoldWriteSignals() noexcept {
    sigemptyset(&held_);
    sigaddset(&held_, SIGXFSZ);
    sigaddset(&held_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HoldWriteSignals() {
    const int error = errno;
    const timespec now{};
    while (sigtimedwait(&held_, nullptr, &now) > 0) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  HoldWriteSignals(const HoldWriteSignals&) = delete;
  HoldWriteSignals& operator=(const HoldWriteSignals&) = delete;

 private:
  sigset_t held_, before_;
};

}  // namespace wt::detail
