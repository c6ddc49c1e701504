// What a training step needs of other ranks. dist implements it (dist/data_parallel.h).
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/tensor.h"

namespace wt::optim {

// What TrainStep asks of the other ranks. sum and max work in place on dense tensors of the model's
// device, on the current stream, and may return before the result is there. Every rank calls
// everything in the same order.
class WT_API Reducer {
 public:
  virtual ~Reducer() = default;
  // Adds up over ranks: gradient arenas, and the pair (sum of losses, weight).
  virtual void sum(const Tensor& t) = 0;
  // The largest over ranks, of the step's predicate: any rank's skip makes all skip. With f16 also
  // of the exponent that backward begins with.
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

  // --- captured steps, TrainStep{.graph = true} ---

  // Throws where the calls above cannot be recorded into a graph, whose replay then does what they
  // did: NotAvailable for good, UsageError for options that stand in the way.
  virtual void require_capture() const {
    throw NotAvailable(
        "[TrainStep] graph = true with a reducer of your own, which does not say that its "
        "collectives can be nodes of a graph\n  Try graph = false");
  }
  // What every rank gives, rank by rank; by default there is one rank, this one. Hosts wait for
  // each other, and for no device. All ranks call it at the same points of a step, none of which is
  // inside of a capture.
  virtual std::vector<u64> gather(u64 mine);
  // A step that was captured on all ranks is replayed on all of them: calls launch(), once. On a
  // device whose work the host does not wait for it returns before it has run.
  virtual void replay(const std::function<void()>& launch) { launch(); }

  // The step throws, at its begin or before its last call here, which other ranks would wait for.
  virtual void give_up() noexcept {}
  // A step begins whose batch is cut in at most so many parts, the same number on all ranks. A rank
  // whose batch has fewer samples makes fewer backwards.
  virtual void begin_step([[maybe_unused]] i64 micro_batches) {}
};

}  // namespace wt::optim
