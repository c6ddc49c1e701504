// What you write in whole_step.cpp. The lab's checks call make_step() and what it returns.
#pragma once
#include <memory>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/tensor.h"

namespace whole {

using wt::Device;
using wt::Tensor;

// --- given ---

struct Batch {
  Tensor x, y;  // on the device
};

class Model {
 public:
  virtual ~Model() = default;
  // The loss of a batch, one element, recorded on the tape. It takes any number of samples.
  virtual Tensor loss(const Tensor& x, const Tensor& y) = 0;
  // Leaves that require gradients, the same tensors every time.
  virtual std::vector<Tensor> parameters() = 0;
};

inline constexpr double kMomentum = 0.9;

// --- yours ---

class Step {
 public:
  virtual ~Step() = default;
  // One training step on the batch: with the gradient g of its loss in each parameter p,
  //   v = kMomentum * v + g;  p = p - rate * v      (v is zeros before the first step)
  // Returns the batch's loss before the step, a tensor of its own that later steps leave alone.
  //
  // Every call is one step, neither more nor less. For batches of the first call's shape all calls
  // from the sixth on are a replay of one graph, with the copies that bring the inputs and take the
  // loss; batches of another shape, here and there, are stepped without a graph. The host waits
  // for nothing from the sixth call on.
  virtual Tensor run(const Batch& batch, double rate) = 0;
};

std::unique_ptr<Step> make_step(Model& model, Device device);

}  // namespace whole
