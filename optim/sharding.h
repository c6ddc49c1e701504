// Optimizer state, and gradients, of which every rank keeps a part (ZeRO: Rajbhandari et al. 2020,
// stages 1 and 2). dist implements it (dist/zero.h); Optimizer::shard() takes it.
#pragma once
#include <span>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::optim {

// What an optimizer asks of the ranks it shares its state with. Each steps its own pieces of the
// parameters, whose gradients must be those of all ranks, and gets the others' afterwards. All
// ranks call everything in the same order; it works on the current stream and may return before the
// result is there.
class WT_API Sharding {
 public:
  // Whole parameters that lie side by side: elements [begin, begin + count) of an arena. Of
  // world() equal pieces each rank keeps the one with its number.
  struct Range {
    // first_slot, n_slots: which parameters, by their number in the arena. begin, count: which
    // elements.
    size_t first_slot, n_slots;
    i64 begin, count;
  };
  virtual ~Sharding() = default;
  // Ranges of parameters of these sizes, in ascending order and without gaps between them: from 0,
  // each as large as its parameters or larger. Sizes are in elements of `item_bytes`.
  virtual std::vector<Range> cut(std::span<const i64> sizes, i64 item_bytes) const = 0;
  // Fetches the other ranks' pieces of a 1-d tensor over an arena, from them.
  virtual void gather(const Tensor& arena, std::span<const Range> ranges) = 0;
  // Adds up an f64 tensor over ranks, in place.
  virtual void sum(const Tensor& t) = 0;
  // This rank's number, from 0.
  virtual i64 rank() const = 0;
  // How many ranks there are.
  virtual i64 world() const = 0;
  // Whether gradients have memory in this rank's pieces alone (ZeRO's stage 2). Who sums them lends
  // each parameter memory for a backward (Leaf::provide).
  virtual bool parts_gradients() const { return false; }
};

}  // namespace wt::optim
