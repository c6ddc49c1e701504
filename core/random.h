// Random state: which numbers the next draw gives.
#pragma once
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/philox.h"
#include "warptape/core/tensor.h"

namespace wt {

// A seed, a fork (copied modes fork) and, per stream, the number of calls made so far. Copy it to
// save it; the checkpoint does.
class WT_API Generator {
 public:
  explicit Generator(u64 seed = 0, u64 fork = 0) : seed_(seed), fork_(fork) {}
  u64 seed() const { return seed_; }
  u64 fork() const { return fork_; }
  // Of several ranks with one seed each has dropout of its own; all other streams are the same.
  PhiloxKey key(RandomStream s) const {
    const bool own = s == RandomStream::dropout && rank_ != 0;
    return philox_key(seed_, s, own ? mix64(fork_ ^ mix64(rank_)) : fork_);
  }
  u64 rank() const { return rank_; }
  void set_rank(u64 rank) { rank_ = rank; }
  // The index of the next call on a stream; counts it.
  u64 next_call(RandomStream s) { return calls_[u32(s)]++; }
  u64 calls(RandomStream s) const { return calls_[u32(s)]; }
  void set_calls(RandomStream s, u64 n) { calls_[u32(s)] = n; }
  // An independent generator, the n-th child of this one.
  Generator child(u64 n) const {
    Generator c(seed_, mix64(fork_ + 1) + n + 1);
    c.rank_ = rank_;
    return c;
  }
  // The next child; counts it.
  Generator next_child() { return child(calls_[0]++); }
  // While a TrainStep runs, calls of the dropout stream count from this 0-d i64 on the device,
  // which the step's last kernel advances unless the step is skipped; undefined otherwise. Its
  // version moves with the step: a draw that is used after its step throws.
  const Tensor& dropout_base() const { return dropout_base_; }
  void enter_step(Tensor base) {
    dropout_base_ = std::move(base);
    if (dropout_base_.defined()) calls_[u32(RandomStream::dropout)] = 0;
  }
  // The same numbers follow.
  friend bool operator==(const Generator& a, const Generator& b) {
    for (u32 s = 0; s < 8; ++s)
      if (a.calls_[s] != b.calls_[s]) return false;
    return a.seed_ == b.seed_ && a.fork_ == b.fork_ && a.rank_ == b.rank_;
  }

 private:
  u64 seed_, fork_, rank_ = 0;
  u64 calls_[8] = {};
  Tensor dropout_base_;
};

// What a random operator takes once and keeps as an attribute.
struct RandomCall {
  PhiloxKey key;
  u64 call;
  Tensor base{};  // a 0-d i64 on the device that is added to `call`; undefined: 0
};
// Key and index of the next call on a stream; not counted yet. Throws UsageError when a
// recomputation draws more than the forward did.
WT_API RandomCall next_random_call(RandomStream s);
// Counts it: once nothing can fail any more.
WT_API void count_random_call(RandomStream s, const RandomCall& call);

// The ambient generator: the mode's own (workers of a ModeCopy), else this thread's. Threads share
// none: a thread's own one forks the main thread's seed at its first draw, and which fork that is
// depends on the order of the threads' first draws. For the same numbers each time, seed in each
// thread.
WT_API Generator& generator();
// Starts the ambient generator anew, as the rank that it is of; other threads' go on, and those
// that have not drawn yet fork from the main thread's newest seed.
WT_API void manual_seed(u64 seed);

}  // namespace wt
