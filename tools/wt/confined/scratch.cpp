#include "warptape/tools/wt/confined/scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"

namespace wt::confined {
namespace {

namespace fs = std::filesystem;

std::mutex live_mutex;
std::vector<std::string>& live() {
  static auto* const all = new std::vector<std::string>;  // the watching thread outlives statics
  return *all;
}

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction before[std::size(kEnds)];
int told[2] = {-1, -1};  // a pipe: numbers of signals, and 0 of the destructor
pthread_t watcher;

// Any thread may get the signal: those of libraries were there first and block none.
void tell(int signal) {
  const int kept = errno;
  const char number = char(signal);
  if (::write(told[1], &number, 1) != 1) ::_exit(128 + signal);
  errno = kept;
}

// Compilers and students' programs, with their groups: they would write into what is removed.
void end_children() {
  std::ifstream list(str("/proc/", ::getpid(), "/task/", ::getpid(), "/children"));
  for (pid_t child; list >> child;) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

// What a compiler started ends a moment after the compiler, and may still make a file.
void remove_for_good(const std::string& path) {
  std::error_code error;
  for (int i = 0; i < 200; ++i) {
    fs::remove_all(path, error);
    if (!error) return;
    ::usleep(10'000);
  }
}

void* watch(void*) {
  char signal = 0;
  while (::read(told[0], &signal, 1) < 0 && errno == EINTR) {}
  if (signal == 0) return nullptr;
  live_mutex.lock();  // for good: nobody makes another one
  end_children();
  unlink_live_temp_files();
  for (const std::string& path : live()) remove_for_good(path);
  ::_exit(128 + signal);
}

void forget(const std::string& path) {
  const std::lock_guard lock(live_mutex);
  std::erase(live(), path);
}

}  // namespace

CleanEnd::CleanEnd() {
  if (::pipe2(told, O_CLOEXEC) != 0) throw OutOfMemory("[process] no pipe");
  if (pthread_create(&watcher, nullptr, watch, nullptr) != 0) {
    ::close(told[0]), ::close(told[1]);
    throw OutOfMemory("[process] no thread");
  }
  struct sigaction ours {};
  ours.sa_handler = tell;
  ours.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kEnds); ++i) {
    sigaction(kEnds[i], nullptr, &before[i]);
    // Whoever started this may want it ignored (nohup).
    if (before[i].sa_handler != SIG_IGN) sigaction(kEnds[i], &ours, nullptr);
  }
}
CleanEnd::~CleanEnd() {
  for (size_t i = 0; i < std::size(kEnds); ++i) sigaction(kEnds[i], &before[i], nullptr);
  const char none = 0;
  if (::write(told[1], &none, 1) == 1) pthread_join(watcher, nullptr);
  ::close(told[0]), ::close(told[1]);
}

Scratch::Scratch(const std::string& destination) {
  const std::lock_guard lock(live_mutex);
  if (destination.empty()) {
    std::error_code error;
    const fs::path all = fs::temp_directory_path(error);
    if (error) throw CheckpointError(str("TMPDIR, for what is compiled: ", error.message()));
    path_ = (all / "wt-XXXXXX").string();
  } else {
    path_ = destination + ".tmp-XXXXXX";
  }
  const std::string wanted = path_;
  if (!::mkdtemp(path_.data()))
    throw CheckpointError(
        str("no folder can be made as ", printable_path(wanted), ": ", std::strerror(errno)));
  live().push_back(path_);
}

Scratch::~Scratch() {
  if (!path_.empty()) remove_for_good(path_);
  forget(path_);
}

void Scratch::move_to(const std::string& destination) {
  const mode_t mask = ::umask(022);
  ::umask(mask);
  ::chmod(path_.c_str(), 0777 & ~mask);
  // Fails where something is there already, but for an empty folder.
  if (std::rename(path_.c_str(), destination.c_str()) != 0)
    throw CheckpointError(
        str(printable_path(destination), " cannot be made: ", std::strerror(errno)));
  forget(path_);
  path_.clear();
}

}  // namespace wt::confined
