#include "warptape/tools/run_signals.h"

#include <unistd.h>

#include <atomic>

#include "warptape/core/atomic_file.h"
#include "warptape/core/progress.h"

namespace wt::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

// Lock-free atomics are the only state that a handler may share.
std::atomic<int> stop_signal{0};
std::atomic<bool> checkpoint_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_stop_signal(int signal) {
  int expected = 0;
  if (stop_signal.compare_exchange_strong(expected, signal)) return;
  unlink_live_temp_files();
  end_progress_line();
  ::_exit(128 + signal);
}

extern "C" void on_checkpoint_signal(int) { checkpoint_wanted.store(true); }

}  // namespace

RunSignals::RunSignals() {
  stop_signal.store(0);
  checkpoint_wanted.store(false);
  for (int i = 0; i < 3; ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGUSR1 ? on_checkpoint_signal : on_stop_signal;
    action.sa_flags = SA_RESTART;  // a read or write of the step must not fail by it
    sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, &before_[i]);
  }
}

RunSignals::~RunSignals() {
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

int RunSignals::signal_received() const noexcept { return stop_signal.load(); }

int RunSignals::exit_code() const noexcept {
  const int signal = stop_signal.load();
  return signal == 0 ? 0 : 128 + signal;
}

bool RunSignals::take_checkpoint_request() noexcept { return checkpoint_wanted.exchange(false); }

}  // namespace wt::tools
