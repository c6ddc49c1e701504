// What the ranks of a local world share. Internal.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "warptape/dist/local.h"

namespace wt::dist::local {

using Clock = std::chrono::steady_clock;

// The end of a world: what every rank throws from then on.
struct Failure {
  int rank;  // -1: several, or not known
  i64 step;
  std::string reason;
};
PeerFailure failure_of(const Failure& f, const Call& call);

// A tensor on its way from one rank to another.
struct Letter {
  DType dtype;
  i64 count;
  std::vector<std::byte> bytes;
};

class World {
 public:
  World(int n, const LocalOptions& options);
  int size() const { return int(ranks_.size()); }
  const LocalOptions& options() const { return options_; }

  // All ranks have come with the same call; then what any of them wrote before is seen by all, and
  // peer() is the others' call. False: the world has failed.
  bool meet(int rank, const Call& call, Clock::time_point deadline);
  const Call& peer(int rank) const { return ranks_[size_t(rank)].call; }
  bool post(int from, const Call& call);
  bool fetch(int to, const Call& call, Clock::time_point deadline);

  void at_step(int rank, i64 step);
  void abort(int rank, const std::string& reason) noexcept;
  void leave(int rank) noexcept;
  std::optional<Failure> failure() const;

 private:
  struct Rank {
    Call call;
    bool here = false, left = false;
    i64 step = -1;
    std::condition_variable bell;
  };
  void fail(int rank, std::string reason);
  void ring_all();
  void check_same();
  void fail_missing(const Call& call);
  std::string place(int rank) const;

  LocalOptions options_;
  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::vector<std::deque<Letter>> letters_;  // from * size + to
  std::optional<Failure> failure_;
  int arrived_ = 0;
  u64 meetings_ = 0;
};

}  // namespace wt::dist::local
