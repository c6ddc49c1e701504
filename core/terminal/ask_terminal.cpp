#include "warptape/core/terminal/ask_terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>

namespace wt::detail {
namespace {

// The background's colour (xterm's OSC 11), then primary device attributes (DA1), which every
// terminal answers and whose answer comes last.
constexpr std::string_view kQuestion = "\x1b]11;?\x1b\\\x1b[c";
constexpr std::size_t kLongest = 4096;

// Whoever is ended or stopped by a signal now would leave a terminal that shows no letters. To
// block it in this thread is not enough: another one, of a library, would get it. So it is noted,
// and comes again once the terminal is as it was. One at a time.
class HoldSignals {
 public:
  HoldSignals() {
    struct sigaction note {};
    note.sa_handler = [](int signal) { noted()[signal] = true; };
    note.sa_flags = SA_RESTART;
    for (size_t i = 0; i < std::size(kHeld); ++i) {
      ::sigaction(kHeld[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kHeld[i], &note, nullptr);
    }
  }
  ~HoldSignals() {
    for (size_t i = 0; i < std::size(kHeld); ++i) ::sigaction(kHeld[i], &before_[i], nullptr);
    for (const int signal : kHeld)
      if (noted()[signal].exchange(false)) ::raise(signal);
  }
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;

 private:
  static constexpr int kHeld[] = {SIGINT, SIGTERM, SIGQUIT, SIGTSTP, SIGHUP};
  static std::atomic<bool>* noted() {
    static constinit std::atomic<bool> of_signal[NSIG] = {};
    return of_signal;
  }
  struct sigaction before_[std::size(kHeld)];
};

// Opened anew: standard output may be open for writing alone.
class Line {
 public:
  explicit Line(int fd) {
    char name[256];
    if (::ttyname_r(fd, name, sizeof name) == 0) fd_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    made_raw_ = fd_ >= 0 && in_foreground() && ::tcgetattr(fd_, &before_) == 0 && make_raw();
  }
  ~Line() {
    if (made_raw_) ::tcsetattr(fd_, TCSANOW, &before_);
    if (fd_ >= 0) ::close(fd_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  explicit operator bool() const { return made_raw_; }
  int fd() const { return fd_; }

  bool readable(int milliseconds) const {
    pollfd p{fd_, POLLIN, 0};
    int n = 0;
    while ((n = ::poll(&p, 1, milliseconds)) < 0 && errno == EINTR) {}
    return n == 1 && p.revents & POLLIN;
  }

 private:
  // Otherwise changing its modes would stop the process. A terminal that is not the controlling
  // one stops nobody.
  bool in_foreground() const {
    const pid_t group = ::tcgetpgrp(fd_);
    return group < 0 ? errno == ENOTTY : group == ::getpgrp();
  }
  // Letters come at once and are not shown.
  bool make_raw() const {
    termios raw = before_;
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO);
    raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 0;
    return ::tcsetattr(fd_, TCSANOW, &raw) == 0;
  }
  int fd_ = -1;
  bool made_raw_ = false;
  termios before_{};
};

// Where the answer to DA1 begins, "\x1b[?...c"; npos while it is not whole.
std::size_t attributes_in(const std::string& got) {
  const std::size_t at = got.find("\x1b[?");
  return at != got.npos && got.find('c', at) != got.npos ? at : got.npos;
}

bool has_attribute(std::string_view attributes, std::string_view wanted) {
  while (!attributes.empty()) {
    const std::size_t end = std::min(attributes.find(';'), attributes.size());
    if (attributes.substr(0, end) == wanted) return true;
    attributes.remove_prefix(std::min(end + 1, attributes.size()));
  }
  return false;
}

// "rgb:1212/1616/1c1c": is it nearer to black than to white?
bool is_dark(const std::string& got) {
  const std::size_t at = got.find("rgb:");
  if (at == got.npos) return true;
  double sum = 0;
  const char* p = got.c_str() + at + 4;
  for (const double weight : {0.299, 0.587, 0.114}) {
    char* end = nullptr;
    const double v = double(std::strtoul(p, &end, 16));
    if (end == p || end - p > 4) return true;
    sum += weight * v / double((1u << 4 * (end - p)) - 1);
    p = end + 1;
    if (*end != '/') break;
  }
  return sum < 0.5;
}

TerminalAnswer answer_in(const std::string& got) {
  const std::size_t at = attributes_in(got);
  if (at == got.npos) return {.asked = true};
  const std::string_view attributes(got.data() + at + 3, got.find('c', at) - at - 3);
  return {.asked = true,
          .answered = true,
          .sixel = has_attribute(attributes, "4"),
          .dark = is_dark(got)};
}

}  // namespace

TerminalAnswer ask_terminal(int fd, double seconds) {
  if (!::isatty(fd)) return {};
  static std::mutex one;
  const std::lock_guard lock(one);
  const HoldSignals hold;  // for longer than the line
  const Line line(fd);
  if (!line || line.readable(0)) return {};
  if (::write(line.fd(), kQuestion.data(), kQuestion.size()) != ssize_t(kQuestion.size()))
    return {};
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::string got;
  while (attributes_in(got) == got.npos && got.size() < kLongest) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0 || !line.readable(int(left * 1000) + 1)) return {.asked = true};
    char part[256];
    const ssize_t n = ::read(line.fd(), part, sizeof part);
    if (n <= 0) return {.asked = true};
    got.append(part, std::size_t(n));
  }
  return answer_in(got);
}

}  // namespace wt::detail
