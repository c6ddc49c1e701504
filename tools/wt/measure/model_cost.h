// What a model of nn/models.h takes, from its shapes alone. Behind `wt models`.
#pragma once
#include <string>

#include "warptape/core/device.h"
#include "warptape/nn/models.h"

namespace wt::tools {

struct ModelCost {
  i64 parameters = 0;
  // Of a forward of one sample in evaluation, by the contracts: two for a product and its sum, and
  // what activations, norms and poolings compute.
  double flops = 0;
  i64 step_bytes = 0;  // the highest level over three training steps
};
struct ModelCostOptions {
  i64 batch = 32;  // of the steps
  Device device = Device::cpu();
  std::string optimizer = "adamw";
};
// On the meta device: nothing is computed, whatever the model's size.
ModelCost cost_of(const models::ModelInfo& model, const ModelCostOptions& o);
// The steps on the device itself, as cost_of() predicts them: bytes at their highest level.
i64 measured_step_bytes(const models::ModelInfo& model, const ModelCostOptions& o);

}  // namespace wt::tools
