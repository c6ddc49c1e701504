#include "warptape/dist/spawn.h"

#include <pthread.h>

#include <exception>
#include <mutex>
#include <thread>
#include <typeinfo>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/memory/mailbox_lane.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"

namespace wt::dist {

namespace {

// The first that a rank threw; a PeerFailure only while nobody threw anything else.
class Causes {
 public:
  void note(int rank, std::exception_ptr e, bool of_peer) {
    const std::lock_guard lock(mutex_);
    if (error_ && (of_peer || !of_peer_)) return;
    error_ = std::move(e);
    rank_ = rank;
    of_peer_ = of_peer;
  }
  void rethrow() const;

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  int rank_ = -1;
  bool of_peer_ = false;
};

// Throws e anew with its rank if it is a T, not something derived from one.
template <class T>
void name_rank(const Error& e, int rank) {
  if (typeid(e) != typeid(T)) return;
  const std::string text = e.what(), kind = std::string(e.kind()) + ": ";
  throw T(str(text.starts_with(kind) ? text.substr(kind.size()) : text, "\n  on rank ", rank));
}
template <class... T>
void name_rank_of(const Error& e, int rank) {
  (name_rank<T>(e, rank), ...);
}

void Causes::rethrow() const {
  if (!error_) return;
  try {
    std::rethrow_exception(error_);
  } catch (const Error& e) {
    name_rank_of<UsageError, ShapeError, DtypeError, IndexError, PlacementError, InplaceError,
                 NotAvailable, DataError, OutOfMemory, NumericError, DeviceError, CheckpointError,
                 InternalError>(e, rank_);
    throw;
  }
}

// What ended a rank, for the others.
std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

struct Spawned {
  const std::function<void(Communicator&)>& fn;
  const SpawnOptions& options;
  Causes causes{};

  void run(int rank, std::unique_ptr<Communicator> local) {
    std::unique_ptr<Communicator> comm = std::move(local);
    try {
      if (options.wrap) comm = options.wrap(std::move(comm));
      fn(*comm);
      wt::detail::check_all_mailboxes();  // a bad label that it has not waited for
    } catch (const PeerFailure&) {
      causes.note(rank, std::current_exception(), true);
    } catch (...) {
      const std::exception_ptr e = std::current_exception();
      causes.note(rank, e, false);
      if (comm) comm->abort(text_of(e));  // else it went with what wrapped it
    }
  }
};

}  // namespace

void spawn(int ranks, const std::function<void(Communicator&)>& fn, SpawnOptions options) {
  if (ranks < 1) throw UsageError(str("[spawn] needs at least 1 rank, got ", ranks));
  auto world = local_world(ranks, options.local);
  Spawned all{fn, options};
  if (ranks == 1) {
    auto comm = std::move(world[0]);
    if (options.wrap) comm = options.wrap(std::move(comm));
    return fn(*comm);
  }
  const Generator before = generator();
  const ModeCopy mode_copy;
  Generator after = before;
  std::vector<std::thread> threads;
  try {
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r, mine = std::move(world[size_t(r)])]() mutable {
        ::pthread_setname_np(::pthread_self(), str("rank ", r).c_str());
        mode_copy.adopt();
        const wt::detail::MailboxLane lane;
        Generator& random = generator();
        random = before;
        random.set_rank(u64(r));
        all.run(r, std::move(mine));
        if (r == 0) after = random;
      });
  } catch (...) {  // no more threads: those that run are told
    for (auto& c : world)
      if (c) c->abort("not all ranks could be started");
    for (std::thread& t : threads) t.join();
    throw;
  }
  for (std::thread& t : threads) t.join();
  after.set_rank(before.rank());
  generator() = after;
  all.causes.rethrow();
}

}  // namespace wt::dist
