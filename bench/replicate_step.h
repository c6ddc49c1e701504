// A step as PyTorch's single-process DataParallel makes it, for comparison: rank 0 has model,
// optimizer and batch; each step it gives all of the parameters and parts of the batch to the
// others, gets whole gradients back, adds them up and steps alone. Internal.
#pragma once
#include "warptape/bench/perceptron.h"
#include "warptape/dist/communicator.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {

class ReplicateStep {
 public:
  ReplicateStep(Perceptron& net, optim::Optimizer& opt, dist::Communicator& comm)
      : net_(net), opt_(opt), comm_(comm) {}
  // `batch`: this rank's part, or room for it; rank 0 sends what it has to each other rank.
  void operator()(const data::Batch& batch);

 private:
  void replicate();
  void scatter(const data::Batch& batch);
  void gather_gradients();

  Perceptron& net_;
  optim::Optimizer& opt_;
  dist::Communicator& comm_;
};

}  // namespace wt::bench
