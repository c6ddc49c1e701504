// WT_ALLOC=guard: what runs past a block dies there. Each crime is committed in a child process.
#include "warptape/core/memory/guard_alloc.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <functional>
#include <thread>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

struct Guarded {
  Guarded() { memory::guard_blocks(true); }
  ~Guarded() { memory::guard_blocks(false); }
};

// The signal that ends a child which does f; 0: none.
int signal_of(const std::function<void()>& f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int s : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(s, SIG_DFL);
    f();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  CHECK(WEXITSTATUS(status) == 0);
  return 0;
}

void poke(const Tensor& t, i64 i) {
  volatile float* p = static_cast<float*>(t.impl()->data);
  p[i] = p[i];
}

}  // namespace

TEST_CASE("guard: an element past either page dies, and so does a released block") {
  const LeakGuard leaks;
  const Guarded guard;
  for (const i64 n : {1, 3, 1000, 1024, 5000}) {
    CAPTURE(n);
    const Tensor t = empty({n});
    CHECK(signal_of([&] { poke(t, 0), poke(t, n - 1); }) == 0);
    CHECK(signal_of([&] { poke(t, n); }) == SIGSEGV);
    const i64 whole = (n + 1023) / 1024 * 1024;  // elements of its pages
    CHECK(signal_of([&] { poke(t, n - whole - 1); }) == SIGSEGV);
    CHECK(signal_of([&] {
            Tensor gone = empty({n});
            auto* p = static_cast<volatile float*>(gone.impl()->data);
            gone = Tensor();
            p[0] = 1;
          }) == SIGSEGV);
  }
}

TEST_CASE("guard: blocks begin as NaN, operators work, and the scope ends") {
  const LeakGuard leaks;
  {
    const Guarded guard;
    for (const double v : empty({100}).to_vector<double>()) CHECK(std::isnan(v));
    const Tensor a = ones({3, 5}), b = ones({5, 7});
    CHECK(matmul(a, b).sum().item() == 105);
    CHECK(empty({0}).numel() == 0);
  }
  CHECK(empty({3}).impl()->storage->special() == false);
}

TEST_CASE("guard: an unknown WT_ALLOC is refused in words") {
  CHECK(signal_of([] {
          setenv("WT_ALLOC", "direct", 1);  // cuda's
          if (detail::guard_wanted()) std::abort();
          setenv("WT_ALLOC", "guard", 1);
          if (!detail::guard_wanted()) std::abort();
          setenv("WT_ALLOC", "gaurd", 1);
          try {
            (void)detail::guard_wanted();
            std::abort();
          } catch (const UsageError&) {}
        }) == 0);
}
