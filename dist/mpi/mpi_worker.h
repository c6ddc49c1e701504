// The thread that carries out a process's calls in their order. Internal.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "warptape/dist/mpi/mpi_collectives.h"

namespace wt::dist {

// The failure as the call that meets it throws it.
PeerFailure failure_of(const Failure& f, const Call& call);

// A call that was begun.
struct MpiJob {
  Call call;
  std::chrono::milliseconds deadline;
  bool done = false;  // under MpiWorker's mutex, like `failed`
  bool failed = false;
};

// Shared by the communicator, its thread and what was begun. After a failure the thread may stay in
// a call of MPI for ever: then nothing of this is freed.
class MpiWorker {
 public:
  MpiWorker(std::unique_ptr<MpiLink> link, std::unique_ptr<Pulse> pulse);
  Pulse* pulse() { return pulse_.get(); }  // null for one rank
  const MpiLink& link() const { return *link_; }

  std::shared_ptr<MpiJob> begin(const Call& c, std::chrono::milliseconds deadline);
  bool done(const MpiJob& job);
  void wait(const MpiJob& job);  // throws PeerFailure
  std::optional<Failure> failure() const;

  // The thread; it ends after end(), when all has been carried out or a rank has failed.
  static void start(const std::shared_ptr<MpiWorker>& self);
  // False: it still is in a call of MPI.
  bool end();

 private:
  void run();
  void carry_out(MpiJob& job);
  void collective(const Call& c);
  void receive(const Call& c);
  void stopped(const Stopped& s, const MpiJob& job);

  std::unique_ptr<MpiLink> link_;
  std::unique_ptr<Pulse> pulse_;
  MpiCollectives collectives_;
  i64 number_ = 0;  // of the last collective

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<MpiJob>> jobs_;
  bool ending_ = false, ended_ = true;
};

}  // namespace wt::dist
