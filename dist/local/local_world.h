// What the ranks of a local world share: who has come to which call, the links between them, and
// how it ends. Internal.
//
// One mutex guards all of it: it is held for a few instructions a chunk, or for a small collective.
// Chunks are read where they lie, in the sender's memory, so that one copy or addition moves them:
// nobody leaves a call before what it sent was taken, nor, once the world has failed, before every
// other rank has left.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/dist/local.h"

namespace wt::dist::local {

using Clock = std::chrono::steady_clock;

// The end of a world: what every rank throws from then on.
struct Failure {
  int rank;  // the one that is to blame
  i64 step;
  std::string reason;
};
// `call` is the one that throws.
PeerFailure failure_of(const Failure& f, const Call& call);

// Thrown inside a call once the world has failed; caught by whoever carries the call out.
struct Ended {};

class World {
 public:
  World(int n, const LocalOptions& options);
  int size() const { return int(ranks_.size()); }
  const LocalOptions& options() const { return options_; }
  bool modelled() const { return modelled_; }

  // --- a collective, on every rank: enter, exchange chunks, leave ---
  // Returns when all ranks have come, with the same call. True: the last one to come carried it out
  // for all of them, there is nothing to exchange and to leave. Throws Ended.
  bool enter(int rank, const Call& call, Clock::time_point deadline);
  // `bytes` at `data`, which stay as they are until they were taken. Does not wait.
  void send(int from, int to, const void* data, i64 bytes);
  // The next chunk of that link; took() gives it back. Throws Ended.
  const void* receive(int from, int to);
  void took(int from, int to);
  // Returns when what `rank` sent was taken, and, if the world failed, when nobody is in the call.
  // Throws Ended if it failed.
  void leave(int rank);

  // --- between two ranks: the bytes are copied, the sender does not wait ---
  void post(int from, const Call& call);
  void fetch(int to, const Call& call, Clock::time_point deadline);

  void at_step(int rank, i64 step);
  void abort(int rank, const std::string& reason) noexcept;
  // Nothing comes from `rank` any more.
  void end(int rank) noexcept;
  std::optional<Failure> failure() const;

  // The world of a group of these ranks, the same for all members that ask with this number and
  // color.
  std::shared_ptr<World> group(i64 number, int color, const std::vector<int>& members);

 private:
  struct Group {
    i64 number;
    int color;
    std::vector<int> members;
    std::weak_ptr<World> world;
    std::shared_ptr<World> held;  // until all members have it: the first may end before the last
    size_t joined = 0;
  };
  struct Rank {
    Call call;                       // the newest one; holds no tensors
    const Call* waits_in = nullptr;  // `call`, while it waits for others in it
    const Call* asked = nullptr;     // the same with its tensors, while it is in enter()
    Clock::time_point deadline;
    bool here = false, ended = false;
    i64 step = -1;
    i64 unread = 0;  // chunks that it sent and nobody has taken
    std::condition_variable bell;
  };
  struct Chunk {
    const void* data;
    i64 bytes, number;
    Clock::time_point begin, arrival;
  };
  struct Letter {
    DType dtype;
    i64 count;
    std::vector<std::byte> bytes;
    Clock::time_point begin, arrival;
  };
  // One direction between two ranks.
  struct Link {
    std::deque<Chunk> chunks;
    std::deque<Letter> letters;
    Clock::time_point free{};  // when it can take the next message (of the model)
    i64 number = 0;            // chunks of the present call
  };
  using Lock = std::unique_lock<std::mutex>;

  bool for_all_at_once(const Call& call) const;
  void all_have_come(Lock& lock, Rank& last);
  Rank& at(int rank) { return ranks_[size_t(rank)]; }
  Link& link(int from, int to) { return links_[size_t(from) * ranks_.size() + size_t(to)]; }
  void fail(int rank, std::string reason);
  void fail_ended(const Call& call);
  void fail_missing(const Call& call);
  void fail_late(int from, int to);
  void fail_unless_same();
  void open_meeting();
  std::string step_of(int rank) const;
  std::string place(int rank) const;
  // Until a message is there; throws Ended.
  void await(Lock& lock, int from, int to, Clock::time_point arrival, Clock::time_point deadline);
  std::pair<Clock::time_point, Clock::time_point> carry(Link& l, i64 bytes) const;
  void note_send(const Call& call, int from, int to, i64 chunk, i64 bytes, Clock::time_point begin,
                 Clock::time_point arrival);

  const LocalOptions options_;
  const bool modelled_;
  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::vector<Link> links_;
  std::optional<Failure> failure_;
  std::vector<Group> groups_;
  int arrived_ = 0, inside_ = 0;
  u64 meetings_ = 0;
  std::vector<std::byte> rows_;  // scratch of small calls
};

}  // namespace wt::dist::local
