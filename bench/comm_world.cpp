#include "warptape/bench/comm_world.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/mode.h"

namespace wt::bench {
namespace {

// The error that the others' PeerFailure come from.
class FirstCause {
 public:
  void note(std::exception_ptr e, bool of_peer) {
    const std::lock_guard lock(mutex_);
    if (!cause_ || (peers_ && !of_peer)) cause_ = e, peers_ = of_peer;
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  bool peers_ = false;
};

}  // namespace

bool ranks_are_processes() { return false; }

void on_each_rank(const WorldOptions& o, const std::function<void(dist::Communicator&)>& fn) {
  auto world = dist::local_world(o.ranks, {.algorithm = o.algorithm});
  FirstCause cause;
  const auto run = [&](int rank) {
    dist::Communicator& comm = *world[size_t(rank)];
    try {
      fn(comm);
    } catch (const PeerFailure&) {
      cause.note(std::current_exception(), true);
    } catch (const std::exception& e) {
      cause.note(std::current_exception(), false);
      comm.abort(e.what());
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < o.ranks; ++r) threads.emplace_back(run, r);
  run(0);
  for (std::thread& t : threads) t.join();
  cause.rethrow();
}

std::string wires_text(const WorldOptions& o) {
  if (o.latency_us == 0 && o.gb_s == 0) return "none: as fast as memory is";
  return str(o.latency_us, " us a message, ", o.gb_s > 0 ? str(o.gb_s, " GB/s") : "no limit",
             " a link");
}

}  // namespace wt::bench
