// The collectives of processes (mpi, tcp), made of messages between two ranks. Internal.
//
// Up to 64 KiB of partial results a binomial tree reduces to rank 0 and spreads the result, above
// it a ring reduces a part a rank and gathers the parts: who adds what to what depends on ranks and
// size alone, and one rank alone makes each element of the result.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/dist/link.h"

namespace wt::dist {

// What a rank tells all others at the beginning of a collective.
struct CallBlock {
  static constexpr i64 kRoom = 224;
  u8 kind = 0, op = 0, dtype = 0, zero = 0;
  i32 root = -1;
  i64 count = 0;   // elements of `in`
  i64 number = 0;  // of the collective
  i64 step = -1;
  char data[kRoom] = {};  // `in`, where it has room
};
static_assert(sizeof(CallBlock) == 256);

class LinkCollectives {
 public:
  explicit LinkCollectives(Link& link) : link_(link), blocks_(size_t(link.size())) {}

  // Carries a checked collective out; `number` and `step` are told to the others. Throws Stopped.
  // Ranks that call something else: the result names one and its call, all have the same result.
  struct Mismatch {
    int rank = -1;  // none
    i64 step = -1;
    std::string reason;
  };
  Mismatch run(const Call& c, i64 number, i64 step);
  // What the ranks told in the last collective.
  std::span<const CallBlock> blocks() const { return blocks_; }

 private:
  Mismatch compare() const;
  void run_inline(const Call& c);
  void run_large(const Call& c);
  void ring_reduce(const Call& c);
  void tree_all_reduce(const Call& c);
  void ring_gather(char* all, const std::vector<i64>& begins);
  void broadcast(char* data, i64 bytes, int root);
  std::vector<i64> parts(i64 count) const;
  // Memory for `bytes`, the same for all calls.
  char* scratch(int which, i64 bytes);

  Link& link_;
  std::vector<CallBlock> blocks_;
  std::vector<char> scratch_[2];
};

// "all_reduce (sum) of 10 f32".
std::string describe_block(const CallBlock& b);
// What `c` tells, without its data.
CallBlock block_of(const Call& c, i64 number, i64 step);

}  // namespace wt::dist
