// The ranks of a command: threads of this process, or the processes that mpirun, srun or
// torchrun started.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "warptape/dist/communicator.h"
#include "warptape/tools/wt/training/run_signals.h"

namespace wt::tools {

struct RankOptions {
  int ranks = 0;  // threads; 0: as many as the launcher started, or one
  std::string device = "auto";
  double deadline = 120;  // seconds
};
// Calls f once for each rank, with its device, and returns what it returned on rank 0 (under a
// launcher: of this process). Of several ranks each has a GPU of its own where `device` is auto or
// cuda and there are any; they speak over NCCL then. Rethrows what the first rank to fail threw.
// Throws UsageError for ranks beside a launcher that started others, and what dist::init() and
// dist::device_for_rank() throw.
int run_ranks(const RankOptions& o, const std::function<int(dist::Communicator&, Device)>& f);
// "[rank 2] " in a process of a rank other than 0, before what it says; else empty.
const std::string& rank_prefix();
// Rank 0 of those that are threads, every one that is a process.
bool first_of_process(const dist::Communicator& comm);
// What rank 0 says; every rank asks together.
bool rank_0_says(dist::Communicator& comm, bool own);
// "4 ranks, threads of this process"; empty for one.
std::string describe_ranks(const dist::Communicator& comm);

// Signals of a run on several ranks: all of them hear what one of them, or its process, was told.
class SharedSignals {
 public:
  explicit SharedSignals(dist::Communicator& comm);

  // To be called by all ranks after each step. `done`: rank 0 wants to stop for a reason of its
  // own.
  void agree(bool done);
  // As agreed, but this process's own where there is one rank.
  bool stop_requested() const noexcept { return signal_received() != 0; }
  bool done() const noexcept { return done_; }
  bool take_checkpoint_request() noexcept;
  // This process was told, whether the others know it already or not.
  bool interrupted() const noexcept { return own_ ? own_->stop_requested() : stop_requested(); }
  int exit_code() const noexcept { return stop_requested() ? 128 + signal_received() : 0; }

 private:
  int signal_received() const noexcept;

  dist::Communicator& comm_;
  std::optional<RunSignals> own_;  // of one rank a process
  int agreed_ = 0;
  bool checkpoint_ = false, done_ = false;
};

}  // namespace wt::tools
