#include "warptape/tools/trained_model.h"

#include "warptape/nn/checkpoint.h"
#include "warptape/tools/run_dir.h"
#include "warptape/tools/run_output.h"
#include "warptape/tools/training.h"

namespace wt::tools {
namespace {

const std::string& value_of(const std::string& path, const nn::Metadata& m, const char* key) {
  const std::string* v = find_value(m, key);
  if (!v) throw DataError(str(path, ": the metadata has no ", key));
  return *v;
}

// The averages take the place of the parameters that they are of.
std::vector<nn::NamedTensor> weights_of(const nn::LoadedTensors& file, bool& averaged) {
  std::vector<nn::NamedTensor> weights = nn::with_prefix(file.tensors, "model.");
  for (nn::NamedTensor& w : weights) {
    const Tensor* average = file.find("ema." + w.name);
    if (!average) continue;
    w.tensor = *average;
    averaged = true;
  }
  return weights;
}

}  // namespace

TrainedModel load_trained(const std::string& path, Device device) {
  require_available(device);
  TrainedModel t;
  t.path = checkpoint_of(path);
  const nn::LoadedTensors file = nn::load_tensors(t.path);
  check_format(t.path, file.metadata);
  t.name = value_of(t.path, file.metadata, "recipe");
  t.data = value_of(t.path, file.metadata, "data");
  t.recipe = find_recipe(t.name).make(Settings::parse(value_of(t.path, file.metadata, "set")));
  t.step = integer_of(file.tensors, "train.step");
  try {
    t.recipe->model().load_state_dict(weights_of(file, t.averaged));
  } catch (const UsageError& e) {
    throw DataError(str(t.path, ": the weights are not those of ", t.name, "\n  ", e.what()));
  }
  t.recipe->model().to(device);
  t.recipe->model().eval();
  return t;
}

}  // namespace wt::tools
