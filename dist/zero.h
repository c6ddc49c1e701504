// An optimizer's state in parts, one a rank: stages 1 and 2 of ZeRO (Rajbhandari et al. 2020). Each
// rank steps 1 / size of the parameters and keeps state for these alone; the gradients of its part
// come by reduce_scatter, and the parameters go out by all_gather: together as many bytes as an
// all_reduce of the gradients.
//
//   optim::AdamW opt{net, {.lr = 1e-3}};
//   dist::DataParallel ddp{net, opt, comm, {.zero = 1}};
//   TrainStep step{net, opt, {.reducer = &ddp}};
//
// Adam's 8 bytes a parameter become 8 / size. The optimizer's state(), load_state() and steps are
// for all ranks to call together; a state is the whole one and loads at any number of ranks. .grad
// holds sums in this rank's pieces alone.
//
// Stage 2, {.zero = 2}: the 4 bytes of gradients become 4 / size too. A bucket has memory of its
// own from the first gradient that is written into it until its reduce_scatter is over, whose
// result is added to what this rank keeps. So every backward sends: with k micro-batches, or under
// no_sync(), k times as many bytes as stage 1, which adds up first and sends once. .grad of a
// parameter throws UsageError, what needs a backward of one rank alone (TrainStep::verify and
// explain) NotAvailable.
#pragma once
#include <span>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/optim/sharding.h"

namespace wt::dist {

// How ZeroShards cuts parameters.
struct ZeroOptions {
  i64 bucket_bytes = i64(25) << 20;       // of parameters that travel together
  i64 first_bucket_bytes = i64(1) << 20;  // of the last ones registered, whose gradients come first
  bool gradients = false;                 // in parts too: stage 2
};

// An optimizer's state in parts, one a rank of a communicator: what Optimizer::shard() takes.
// DataParallel makes it.
class WT_API ZeroShards final : public optim::Sharding {
 public:
  // A part of the state for each rank of `comm`, which it keeps a reference to.
  ZeroShards(Communicator& comm, const ZeroOptions& options) : comm_(comm), options_(options) {}

  // The buckets: whole parameters, cut from the end, each filled up to equal pieces for the ranks,
  // which are multiples of 64 elements.
  std::vector<Range> cut(std::span<const i64> sizes, i64 item_bytes) const override;
  // Fetches the other ranks' pieces of these ranges: an all_gather each, in place.
  void gather(const Tensor& arena, std::span<const Range> ranges) override;
  // Sums `t` over all ranks, in place.
  void sum(const Tensor& t) override { comm_.all_reduce(t); }
  // The communicator's: which piece is this rank's.
  i64 rank() const override { return comm_.rank(); }
  // The communicator's number of ranks, and of pieces.
  i64 world() const override { return comm_.size(); }
  // Whether gradients are in parts too, ZeroOptions::gradients.
  bool parts_gradients() const override { return options_.gradients; }

 private:
  Communicator& comm_;
  ZeroOptions options_;
};

// Elements [begin, begin + count) of a 1-d tensor over an arena, as collectives take them: in its
// memory, and not counted as a view.
WT_API Tensor range_of(const Tensor& arena, i64 begin, i64 count);
// This rank's elements of a 1-d tensor over an arena that has as many for every rank, in its
// memory.
WT_API Tensor own_piece(const Communicator& comm, const Tensor& whole);

// Parameters that make a bucket together.
struct Group {
  size_t first, n;  // parameters [first, first + n)
};
// The groups of parameters of these sizes, from the end: what was registered last comes first. Each
// group is as large as `limit` allows, the first one as `first_limit`, and has a parameter at
// least. What is behind a weight and at most a 16th of it (its bias) stays with it, beyond the
// limit too: gradients of both come together. `sizes` in elements, limits in bytes.
WT_API std::vector<Group> groups_from_end(std::span<const i64> sizes, i64 item_bytes,
                                          i64 first_limit, i64 limit);

}  // namespace wt::dist
