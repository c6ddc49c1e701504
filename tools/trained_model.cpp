#include "warptape/tools/trained_model.h"

#include <algorithm>

#include "warptape/core/safetensors.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tools/recipe_device.h"
#include "warptape/tools/recipe_training.h"
#include "warptape/tools/run_dir.h"
#include "warptape/tools/run_output.h"

namespace wt::tools {
namespace {

const std::string& value_of(const std::string& path, const nn::Metadata& m, const char* key) {
  const std::string* v = find_value(m, key);
  if (!v) throw DataError(str(path, ": the metadata has no ", key));
  return *v;
}

bool has_average(const std::string& path) {  // reads the header alone
  const SafetensorsFile file = SafetensorsFile::open(path);
  return std::any_of(file.entries().begin(), file.entries().end(),
                     [](const TensorEntry& t) { return t.name.starts_with("ema."); });
}

}  // namespace

TrainedModel load_trained(const std::string& path, const std::string& device) {
  TrainedModel t;
  t.path = checkpoint_of(path);
  const nn::LoadedTensors file = nn::load_tensors(t.path);
  check_format(t.path, file.metadata);
  t.name = value_of(t.path, file.metadata, "recipe");
  t.data = value_of(t.path, file.metadata, "data");
  t.recipe = find_recipe(t.name).make(Settings::parse(value_of(t.path, file.metadata, "set")));
  t.device = device_for(*t.recipe, device);
  t.step = from_file(t.path, [&] { return integer_of(file.tensors, "train.step"); });
  try {
    t.averaged = has_average(t.path);
    nn::load_model(t.recipe->model(), t.path, {.ema = t.averaged});
  } catch (const UsageError& e) {
    throw DataError(str(t.path, ": the weights are not those of ", t.name, "\n  ", e.what()));
  }
  t.recipe->model().to(t.device);
  t.recipe->model().eval();
  return t;
}

std::string load_initial_weights(nn::ModuleBase& model, const std::string& path) {
  const std::string file = checkpoint_of(path);
  nn::load_model(model, file, {.ema = has_average(file)});
  return file;
}

}  // namespace wt::tools
