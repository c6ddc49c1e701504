// A model that `wt train` has made, for the commands that use one.
#pragma once
#include <memory>
#include <string>

#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

struct TrainedModel {
  std::unique_ptr<Recipe> recipe;
  std::string name;  // of the recipe
  std::string path;  // of the checkpoint
  std::string data;  // what it was trained on
  i64 step = 0;
  Device device = Device::cpu();
  bool averaged = false;  // the weights are the average of those of training
};
// From a checkpoint, or a run's folder: then its best checkpoint, else its newest valid one. Where
// training kept an average of the weights, it is taken. The model is on the device called `device`
// (device_for), in eval mode. Throws DataError for a file that is no checkpoint of `wt train`.
TrainedModel load_trained(const std::string& path, const std::string& device);

// Weights to begin a training with, from the same places, or from a safetensors file of the model's
// state (PyTorch's names). Returns the file's path. Throws DataError for a file that cannot be
// read, UsageError for weights of another model; the model is then as before.
std::string load_initial_weights(Recipe& recipe, const std::string& path);

}  // namespace wt::tools
