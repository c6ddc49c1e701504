// A model that `wt train` has made, for the commands that use one.
#pragma once
#include <memory>
#include <string>

#include "warptape/tools/recipes.h"

namespace wt::tools {

struct TrainedModel {
  std::unique_ptr<Recipe> recipe;
  std::string name;  // of the recipe
  std::string path;  // of the checkpoint
  std::string data;  // what it was trained on
  i64 step = 0;
  bool averaged = false;  // the weights are the average of those of training
};
// From a checkpoint, or a run's folder: then its best checkpoint, else its newest valid one. Where
// training kept an average of the weights, it is taken. The model is on `device`, in eval mode.
// Throws DataError for a file that is no checkpoint of `wt train`.
TrainedModel load_trained(const std::string& path, Device device);

}  // namespace wt::tools
