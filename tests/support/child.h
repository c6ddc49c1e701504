// Work in a process of its own: what it allocates, and how it dies, is nobody else's.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warptape/core/error.h"
#include "warptape/core/types.h"
#include "warptape/tests/support/catch.h"

// There under AddressSanitizer, which keeps freed memory for a while.
extern "C" void __asan_init() __attribute__((weak));

namespace wt_test {

// What f() returns in a child process (98: it threw a DataError, 99: anything else), or the signal
// that the child died of, negative.
template <class F>
int in_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = f();
    } catch (const wt::DataError&) {
      code = 98;
    } catch (...) {}
    ::_exit(code);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// How f() went in a child process: 0, 1 if it gives false, 2 if it needs more than `most` bytes of
// resident memory beside what there was. AddressSanitizer keeps what was freed: never 2 with it.
template <class F>
int in_little_memory(wt::i64 most, F f) {
  return in_child([&] {
    const auto peak = [] {
      rusage use{};
      getrusage(RUSAGE_SELF, &use);
      return wt::i64(use.ru_maxrss) * 1024;
    };
    const wt::i64 before = peak();
    if (!f()) return 1;
    return peak() - before > most && !__asan_init ? 2 : 0;
  });
}

}  // namespace wt_test
