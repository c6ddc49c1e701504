// Ctrl-C and friends during a run. The first SIGINT or SIGTERM asks the loop to finish its step,
// save and end with exit_code(); the second ends the process at once, removing the temporary file
// that is being written (the old one is intact). SIGUSR1 asks for a checkpoint now (Slurm's
// preemption). SIGPIPE is ignored: a reader of stderr or stdout that has gone ends no training.
#pragma once
#include <signal.h>

namespace wt::tools {

class RunSignals {
 public:
  // Installs the handlers, for one run at a time; the destructor restores what was there. But where
  // SIGUSR1 or SIGPIPE would end the process it leaves them ignored: one that comes while a
  // finished run is being put away must not make a failure of it.
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  bool stop_requested() const noexcept { return signal_received() != 0; }
  int signal_received() const noexcept;  // SIGINT, SIGTERM or 0
  int exit_code() const noexcept;        // 130, 143 or 0
  // Whether SIGUSR1 came since the last call.
  bool take_checkpoint_request() noexcept;

 private:
  struct sigaction before_[4];
};

}  // namespace wt::tools
