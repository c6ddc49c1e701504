#include "warptape/tools/wt/training/run_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

using wt::tools::RunSignals;

TEST_CASE("signals: the first one asks, with its exit code, and the old handlers come back") {
  struct sigaction before, after;
  ::sigaction(SIGTERM, nullptr, &before);
  {
    RunSignals signals;
    CHECK_FALSE(signals.stop_requested());
    CHECK(signals.exit_code() == 0);
    ::raise(SIGTERM);
    CHECK(signals.stop_requested());
    CHECK(signals.signal_received() == SIGTERM);
    CHECK(signals.exit_code() == 143);
  }
  ::sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
  RunSignals again;
  CHECK_FALSE(again.stop_requested());
  ::raise(SIGINT);
  CHECK(again.exit_code() == 130);
}

TEST_CASE("signals: SIGUSR1 asks for a checkpoint and nothing else") {
  RunSignals signals;
  CHECK_FALSE(signals.take_checkpoint_request());
  ::raise(SIGUSR1);
  CHECK_FALSE(signals.stop_requested());
  CHECK(signals.take_checkpoint_request());
  CHECK_FALSE(signals.take_checkpoint_request());
}

TEST_CASE("signals: one that comes after the run's end does not end the process") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGUSR1, SIG_DFL), ::signal(SIGPIPE, SIG_DFL), ::signal(SIGINT, SIG_DFL);
    { const RunSignals signals; }
    ::raise(SIGUSR1);
    ::raise(SIGPIPE);
    ::raise(SIGINT);  // the user still may
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("signals: a handler of the caller's comes back, for SIGUSR1 and SIGPIPE too") {
  const auto mine = [](int) {};
  for (const int signal : {SIGUSR1, SIGPIPE}) {
    struct sigaction before, after;
    struct sigaction action {};
    action.sa_handler = mine;
    ::sigaction(signal, &action, &before);
    { const RunSignals signals; }
    ::sigaction(signal, &before, &after);
    CHECK(after.sa_handler == action.sa_handler);
  }
}

TEST_CASE("signals: the second one ends the process at once and leaves no temporary file") {
  const TempDir dir;
  spit(dir / "ckpt", "old");
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunSignals signals;
    wt::AtomicFile file(dir / "ckpt");
    file.write("half");
    (void)!::write(ready[1], "x", 1);
    while (!signals.stop_requested()) ::usleep(100);
    (void)!::write(ready[1], "y", 1);
    for (;;) ::pause();  // a save that never ends
  }
  char c = 0;
  REQUIRE(::read(ready[0], &c, 1) == 1);
  CHECK(dir.count(".tmp-") == 1);
  ::kill(pid, SIGTERM);
  REQUIRE(::read(ready[0], &c, 1) == 1);
  CHECK(c == 'y');
  const auto start = std::chrono::steady_clock::now();
  ::kill(pid, SIGINT);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(slurp(dir / "ckpt") == "old");
  CHECK(dir.count() == 1);
  ::close(ready[0]);
  ::close(ready[1]);
}
