#include "warptape/bench/replicate_step.h"

#include "warptape/core/factories.h"

namespace wt::bench {

void ReplicateStep::operator()(const data::Batch& batch) {
  opt_.zero_grad();
  replicate();
  scatter(batch);
  cross_entropy(net_(batch.x), batch.y).backward();
  gather_gradients();
  if (comm_.rank() == 0) opt_.step();
}

// A copy of the model on every rank, which lives for one step.
void ReplicateStep::replicate() {
  const NoGrad no_grad;
  for (const Tensor& p : net_.parameters()) comm_.broadcast(p);
}

void ReplicateStep::scatter(const data::Batch& batch) {
  if (comm_.rank() != 0) {
    comm_.recv(batch.x, 0);
    return comm_.recv(batch.y, 0);
  }
  for (int r = 1; r < comm_.size(); ++r) {
    comm_.send(batch.x, r);
    comm_.send(batch.y, r);
  }
}

// The backward has ended: nothing of this is hidden.
void ReplicateStep::gather_gradients() {
  const NoGrad no_grad;
  for (const Tensor& p : net_.parameters()) {
    Tensor sum = p.grad();
    if (comm_.rank() != 0) {
      comm_.send(sum, 0);
      continue;
    }
    const Tensor theirs = empty(sum.shape());
    for (int r = 1; r < comm_.size(); ++r) {
      comm_.recv(theirs, r);
      sum.add_(theirs);
    }
    sum.mul_(1.0 / comm_.size());
  }
}

}  // namespace wt::bench
