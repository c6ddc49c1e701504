#include "warptape/tools/wt/confined/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/files/hold_write_signals.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/sandbox.h"

namespace wt::confined {
namespace {

constexpr int kLook = 20;      // ms between two looks at its memory
constexpr int kTroubleAt = 5;  // the child's descriptor for what is in its way

void limit(int what, u64 n, u64 more = 0) {
  rlimit l{};
  ::getrlimit(__rlimit_resource(what), &l);
  l.rlim_max = std::min<rlim_t>(n + more, l.rlim_max);
  l.rlim_cur = std::min<rlim_t>(n, l.rlim_max);
  ::setrlimit(__rlimit_resource(what), &l);
}

std::vector<char*> words(const std::vector<std::string>& list) {
  std::vector<char*> all;
  for (const std::string& w : list) all.push_back(const_cast<char*>(w.c_str()));
  all.push_back(nullptr);
  return all;
}

void close_if(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

}  // namespace

Process::Process(const Start& start) : limits_(start.limits) {
  // The third carries what keeps the child from executing its program; executing closes it.
  int ends[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  auto& [asked, answered, trouble] = ends;
  const auto close_all = [&] {
    for (auto& pair : ends)
      for (int& fd : pair) close_if(fd);
  };
  output_ = ::memfd_create("output", MFD_CLOEXEC);
  if (output_ < 0 || ::pipe2(trouble, O_CLOEXEC) != 0 ||
      (start.pipes && (::pipe2(asked, O_CLOEXEC) != 0 || ::pipe2(answered, O_CLOEXEC) != 0))) {
    const int why = errno;
    close_all(), close_if(output_);
    throw OutOfMemory(str("[process] no pipe: ", std::strerror(why)));
  }
  const std::vector<char*> argv = words(start.command), environment = words(start.environment);
  pid_ = ::fork();
  if (pid_ == 0) {
    prepare(start, asked[0], answered[1], trouble[1]);
    ::execve(argv[0], argv.data(), environment.data());
    say_trouble(kTroubleAt, Trouble::program);
  }
  const int why = errno;
  if (pid_ > 0) to_ = std::exchange(asked[1], -1), from_ = std::exchange(answered[0], -1);
  const int said = pid_ > 0 ? std::exchange(trouble[0], -1) : -1;
  close_all();
  if (pid_ < 0) {
    close_if(output_);
    throw OutOfMemory(str("[process] no process: ", std::strerror(why)));
  }
  ::setpgid(pid_, pid_);  // here and there: whoever comes first
  throw_trouble(start, said);
}

// Reads until the child executes its program, or says what is in the way.
void Process::throw_trouble(const Start& start, int said) {
  int what[2] = {};  // Trouble, errno
  ssize_t n;
  do n = ::read(said, what, sizeof what);
  while (n < 0 && errno == EINTR);
  ::close(said);
  if (n != ssize_t(sizeof what)) return;
  kill();
  close_if(to_), close_if(from_), close_if(output_);
  const std::string why = std::strerror(what[1]);
  if (Trouble(what[0]) == Trouble::files)
    throw CheckpointError(str("a program cannot run in ", printable_path(start.folder), ": ", why));
  if (Trouble(what[0]) == Trouble::sandbox)
    throw NotAvailable(
        "wt grade runs nobody's kernel without a sandbox, and this system lets none be made: it "
        "needs seccomp (CONFIG_SECCOMP_FILTER), which a container may forbid");
  throw NotAvailable(str("cannot execute ", printable_path(start.command[0]), ": ", why));
}

// In the child, where nothing may be allocated: what is in the way, and its end.
void Process::say_trouble(int fd, Trouble t) {
  const int what[2] = {int(t), errno};
  if (::write(fd, what, sizeof what) < 0) ::_exit(2);
  ::_exit(1);
}

void Process::prepare(const Start& start, int in, int out, int trouble) const {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted grader leaves nobody behind
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::chdir(start.folder.c_str()) != 0) say_trouble(trouble, Trouble::files);
  // Copies above all others first: a descriptor may be in the way of another one's place.
  const auto high = [](int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD, 10); };
  const int high_in = high(in), high_out = high(out), high_trouble = high(trouble);
  ::dup2(nothing, 0), ::dup2(output_, 1), ::dup2(output_, 2);
  if (high_in >= 0) ::dup2(high_in, 3), ::dup2(high_out, 4);
  ::dup3(high_trouble, kTroubleAt, O_CLOEXEC);
  if (high_in < 0) ::close(3), ::close(4);
  ::close_range(kTroubleAt + 1, ~0u, 0);
  for (int s = 1; s < 32; ++s) ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, u64(limits_.file_bytes));
  // A signal that says which limit it was, then one that cannot be ignored.
  limit(RLIMIT_CPU, u64(limits_.cpu_seconds) + 1, 1);
  if (limits_.address_space) limit(RLIMIT_AS, u64(limits_.address_space));
  if (limits_.confined && !confine(start.command[0].c_str()))
    say_trouble(kTroubleAt, Trouble::sandbox);
}

HiddenMemory::HiddenMemory() : before_(::prctl(PR_GET_DUMPABLE)) { ::prctl(PR_SET_DUMPABLE, 0); }
HiddenMemory::~HiddenMemory() {
  if (before_ >= 0) ::prctl(PR_SET_DUMPABLE, before_);
}

Process::~Process() {
  kill();
  close_if(to_), close_if(from_), close_if(output_);
}

std::string Process::output() const {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t n = ::pread(output_, part, sizeof part, off_t(text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || i64(text.size()) >= limits_.file_bytes) return text;
    text.append(part, size_t(n));
  }
}

void Process::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  reap(true);
}

bool Process::reap(bool block) {
  if (pid_ < 0) return true;
  int status = 0;
  pid_t got;
  do got = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  ::kill(-pid_, SIGKILL);  // whoever is left of its group
  pid_ = -1;
  ended_ = WIFEXITED(status) ? Ended{Ended::How::exited, WEXITSTATUS(status)}
                             : Ended{Ended::How::killed, WTERMSIG(status)};
  return true;
}

bool Process::too_large() const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/statm", int(pid_));
  long pages = 0, resident = 0;
  if (std::FILE* const f = std::fopen(path, "re")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return i64(resident) * i64(::sysconf(_SC_PAGESIZE)) > limits_.memory;
}

bool Process::ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) late_ = true;
    if (late_ || (large_ = too_large())) return false;
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, int(std::min<long long>(left, kLook)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool Process::send(const void* from, size_t bytes, Clock::time_point deadline) {
  const wt::detail::HoldWriteSignals hold;
  const char* p = static_cast<const char*>(from);
  while (bytes) {
    if (!ready(to_, POLLOUT, deadline)) return false;
    // No more than a pipe takes at once when it says that it takes something.
    const ssize_t n = ::write(to_, p, std::min<size_t>(bytes, 4096));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= size_t(n);
  }
  return true;
}

bool Process::receive(void* to, size_t bytes, Clock::time_point deadline) {
  char* p = static_cast<char*>(to);
  while (bytes) {
    if (!ready(from_, POLLIN, deadline)) return false;
    const ssize_t n = ::read(from_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= size_t(n);
  }
  return true;
}

Ended Process::wait(Clock::time_point deadline) {
  close_if(to_);  // end of file: it has nothing more to do
  while (!late_ && !large_ && !reap(false)) {
    if (Clock::now() > deadline) late_ = true;
    large_ = !late_ && too_large();
    ::usleep(2000);
  }
  if (pid_ >= 0) {
    kill();
    ended_.how = late_ ? Ended::How::late : Ended::How::memory;
  }
  return ended_;
}

}  // namespace wt::confined
