// The thread that carries out a process's calls in their order. Internal.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "warptape/dist/process/collectives.h"

namespace wt::dist {

// A call that was begun.
struct LinkJob {
  Call call;
  std::chrono::milliseconds deadline;
  bool done = false;  // under LinkWorker's mutex, like `failed`
  bool failed = false;
};

// Shared by the communicator, its thread and what was begun. After a failure the thread may stay in
// a call of the transport for ever (MPI): then nothing of this is freed.
class LinkWorker {
 public:
  LinkWorker(std::unique_ptr<Link> link, std::unique_ptr<Pulse> pulse);
  Pulse* pulse() { return pulse_.get(); }  // null for one rank
  const Link& link() const { return *link_; }
  void abandon() { link_->abandon(); }

  std::shared_ptr<LinkJob> begin(const Call& c, std::chrono::milliseconds deadline);
  bool done(const LinkJob& job);
  void wait(const LinkJob& job);  // throws PeerFailure
  std::optional<Failure> failure() const;

  // The thread; it ends after end(), when all has been carried out or a rank has failed.
  static void start(const std::shared_ptr<LinkWorker>& self);
  // False: it still is in a call of the transport.
  bool end();

 private:
  void run();
  void carry_out(LinkJob& job);
  void collective(const Call& c);
  void receive(const Call& c);
  void stopped(const Stopped& s, const LinkJob& job);

  std::unique_ptr<Link> link_;
  std::unique_ptr<Pulse> pulse_;
  LinkCollectives collectives_;
  i64 number_ = 0;  // of the last collective

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<LinkJob>> jobs_;
  bool ending_ = false, ended_ = true;
};

}  // namespace wt::dist
