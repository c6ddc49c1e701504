// An optimizer's state in parts, one a rank: stage 1 of ZeRO (Rajbhandari et al. 2020). Each rank
// steps 1 / size of the parameters and keeps state for these alone; the gradients of its part come
// by reduce_scatter, and the parameters go out by all_gather: together as many bytes as an
// all_reduce of the gradients.
//
//   optim::AdamW opt{net, {.lr = 1e-3}};
//   dist::DataParallel ddp{net, opt, comm, {.zero = 1}};
//   TrainStep step{net, opt, {.reducer = &ddp}};
//
// Adam's 8 bytes a parameter become 8 / size. The optimizer's state(), load_state() and steps are
// for all ranks to call together; a state is the whole one and loads at any number of ranks. .grad
// holds sums in this rank's pieces alone.
#pragma once
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/optim/sharding.h"

namespace wt::dist {

class WT_API ZeroShards final : public optim::Sharding {
 public:
  // Arenas are cut into buckets of about so many elements, and each bucket into a piece a rank:
  // what is reduced at once, while backward goes on. Keeps a reference to `comm`.
  ZeroShards(Communicator& comm, i64 bucket_elements);

  // The buckets of an arena: ranges one after the other, each with equal pieces.
  std::vector<Piece> buckets(i64 elements) const;
  // This rank's piece of a bucket.
  Piece piece_of(const Piece& bucket) const;

  i64 multiple() const override { return kAlign * comm_.size(); }
  std::vector<Piece> pieces(i64 elements) const override;
  void gather(const Tensor& arena) override;
  void sum(const Tensor& t) override { comm_.all_reduce(t); }
  i64 rank() const override { return comm_.rank(); }
  i64 world() const override { return comm_.size(); }

 private:
  static constexpr i64 kAlign = 64;  // elements: pieces begin where wide loads can

  Communicator& comm_;
  i64 bucket_;
};

// Elements of a 1-d tensor over an arena, as collectives take them: not counted as a view.
WT_API Tensor range_of(const Tensor& arena, const optim::Sharding::Piece& p);

}  // namespace wt::dist
