// What a training step needs of other ranks. dist implements it (dist/data_parallel.h).
#pragma once
#include <span>

#include "warptape/core/tensor.h"

namespace wt::optim {

// sum and max work in place on dense tensors of the model's device, on the current stream, and may
// return before the result is there. Every rank calls everything in the same order.
class WT_API Reducer {
 public:
  virtual ~Reducer() = default;
  // Gradient arenas, and the pair (sum of losses, weight).
  virtual void sum(const Tensor& t) = 0;
  // The predicate: any rank's skip makes all skip.
  virtual void max(const Tensor& t) = 0;
  // After the last backward, unreached gradients being zero: which parameters it reached, a byte
  // each, and afterwards those that any rank's did. What the host knows; the device is not waited
  // for. A parameter that one rank steps and another one leaves alone would differ from then on.
  virtual void any(std::span<char> reached) = 0;

  // A backward is about to begin; `last`: its gradients are those to be summed, and may be summed
  // as they arrive.
  virtual void begin_backward([[maybe_unused]] bool last) {}
  // After any(): sums the gradients that it has not summed yet. False: it does not know the
  // gradients, and sum() is called for each arena.
  virtual bool sum_gradients() { return false; }
  // The step throws, at its begin or before its last call here, which other ranks would wait for.
  virtual void give_up() noexcept {}
  // A step begins whose batch is cut in at most so many parts, the same number on all ranks. A rank
  // whose batch has fewer samples makes fewer backwards.
  virtual void begin_step([[maybe_unused]] i64 micro_batches) {}
};

}  // namespace wt::optim
