// Device memory of simt for tests: an owning array with copies in and out.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "warptape/kernels/simt/executor.h"

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n), data_(wt::simt_arena_alloc(n * sizeof(T))) {}
  explicit DeviceArray(const std::vector<T>& v) : DeviceArray(v.size()) {
    const wt::SimtUnprotect open;
    std::memcpy(data_, v.data(), n_ * sizeof(T));
  }
  ~DeviceArray() { wt::simt_arena_free(data_); }
  DeviceArray(const DeviceArray&) = delete;

  std::vector<T> host() const {
    std::vector<T> v(n_);
    const wt::SimtUnprotect open;
    std::memcpy(v.data(), data_, n_ * sizeof(T));
    return v;
  }
  T* data() const { return static_cast<T*>(data_); }
  operator T*() const { return data(); }

 private:
  size_t n_;
  void* data_;
};

// Sets options for a scope.
struct WithSimt {
  explicit WithSimt(wt::SimtOrder order, uint64_t seed = 1) : WithSimt() {
    wt::simt_options().order = order;
    wt::simt_options().seed = seed;
  }
  WithSimt() : before(wt::simt_options()) {}
  ~WithSimt() { wt::simt_options() = before; }
  wt::SimtOptions before;
};

// When work runs, for a scope.
struct WithStreams {
  explicit WithStreams(wt::SimtStreams mode, uint64_t seed = 1) : before(wt::simt_streams()) {
    wt::set_simt_streams(mode, seed);
  }
  ~WithStreams() {
    try {
      wt::set_simt_streams(before);
    } catch (const wt::KernelError&) {  // of the scope, which did not wait for it
    }
  }
  WithStreams(const WithStreams&) = delete;
  wt::SimtStreams before;
};

// The handler for wild accesses before the test framework put its own in place: a sanitizer's.
inline const struct sigaction first_segv_action = [] {
  struct sigaction action;
  sigaction(SIGSEGV, nullptr, &action);
  return action;
}();

// Runs `f` in a child process with that handler; its standard error, and its exit status.
template <class F>
std::string in_child(F f, int& status) {
  status = -1;
  int out[2];
  if (pipe(out) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 2);
    sigaction(SIGSEGV, &first_segv_action, nullptr);
    f();
    _exit(0);
  }
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(out[0]);
  waitpid(child, &status, 0);
  return text;
}
