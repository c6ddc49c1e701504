#include "warptape/tools/wt/training/run_signals.h"

#include <unistd.h>

#include <atomic>
#include <iterator>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/progress.h"

namespace wt::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGPIPE};
constexpr int kCount = std::size(kSignals);

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

void (*handler_of(int signal))(int) {
  if (signal == SIGPIPE) return SIG_IGN;
  return signal == SIGUSR1 ? on_checkpoint_signal : on_stop_signal;
}

bool would_end_too_late(int signal, const struct sigaction& before) {
  return (signal == SIGUSR1 || signal == SIGPIPE) && before.sa_handler == SIG_DFL;
}

}  // namespace

RunSignals::RunSignals() {
  stop_signal.store(0);
  checkpoint_wanted.store(false);
  static_assert(sizeof before_ / sizeof *before_ == kCount);
  for (int i = 0; i < kCount; ++i) {
    struct sigaction action {};
    action.sa_handler = handler_of(kSignals[i]);
    action.sa_flags = SA_RESTART;  // a read or write of the step must not fail by it
    sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, &before_[i]);
  }
}

RunSignals::~RunSignals() {
  for (int i = 0; i < kCount; ++i) {
    if (would_end_too_late(kSignals[i], before_[i])) before_[i].sa_handler = SIG_IGN;
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
}

int RunSignals::signal_received() const noexcept { return stop_signal.load(); }

int RunSignals::exit_code() const noexcept {
  const int signal = stop_signal.load();
  return signal == 0 ? 0 : 128 + signal;
}

bool RunSignals::take_checkpoint_request() noexcept { return checkpoint_wanted.exchange(false); }

}  // namespace wt::tools
