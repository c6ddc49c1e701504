// Optimizer state of which every rank keeps a part (ZeRO: Rajbhandari et al. 2020, stage 1). dist
// implements it (dist/zero.h); Optimizer::shard() takes it.
#pragma once
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::optim {

// What an optimizer asks of the ranks it shares its state with. Each steps its own pieces of the
// parameters, whose gradients must be those of all ranks, and gets the others' afterwards. All
// ranks call everything in the same order; it works on the current stream and may return before the
// result is there.
class WT_API Sharding {
 public:
  // Elements [begin, begin + count) of an arena.
  struct Piece {
    i64 begin, count;
  };
  virtual ~Sharding() = default;
  // The sizes of arenas are multiples of so many elements.
  virtual i64 multiple() const = 0;
  // This rank's pieces of an arena, in ascending order. Every element is some rank's, and all ranks
  // have equally many.
  virtual std::vector<Piece> pieces(i64 elements) const = 0;
  // The other ranks' pieces of a 1-d tensor over such an arena, from them.
  virtual void gather(const Tensor& arena) = 0;
  // In place, over ranks: of f64.
  virtual void sum(const Tensor& t) = 0;
  virtual i64 rank() const = 0;
  virtual i64 world() const = 0;
};

}  // namespace wt::optim
