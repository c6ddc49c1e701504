#include "warptape/tools/wt/training/trained_model.h"

#include <algorithm>

#include "warptape/core/factories.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/reports/run_output.h"
#include "warptape/tools/wt/training/run_dir.h"

namespace wt::tools {
namespace {

const std::string& value_of(const std::string& path, const nn::Metadata& m, const char* key) {
  const std::string* v = find_value(m, key);
  if (!v) throw DataError(str(printable_path(path), ": the metadata has no ", key));
  return *v;
}

bool has_average(const SafetensorsFile& file) {
  return std::any_of(file.entries().begin(), file.entries().end(),
                     [](const TensorEntry& t) { return t.name.starts_with("ema."); });
}

// One of the file's numbers, without the rest.
std::vector<nn::NamedTensor> number_in(SafetensorsFile& file, const std::string& name) {
  const TensorEntry* const e = file.find(name);
  if (!e || e->bytes() != u64(item_size(e->dtype))) return {};
  Tensor t = empty({}, {.dtype = e->dtype, .device = Device::cpu()});
  file.read(*e, t.impl()->data);
  return {{name, t}};
}

}  // namespace

// Of the file only the header, the step and the weights are read.
TrainedModel load_trained(const std::string& path, const std::string& device) {
  TrainedModel t;
  t.path = checkpoint_of(path);
  SafetensorsFile file = SafetensorsFile::open(t.path);
  check_format(t.path, file.metadata());
  t.name = value_of(t.path, file.metadata(), "recipe");
  t.data = value_of(t.path, file.metadata(), "data");
  const std::string& set = value_of(t.path, file.metadata(), "set");
  const auto must_fit = [&](auto&& make) {
    try {
      make();
    } catch (const UsageError& e) {
      throw DataError(str(printable_path(t.path), ": the weights are not those of ",
                          printable(t.name), "\n  ", e.what()));
    }
  };
  must_fit([&] {
    // The settings may ask for a model of any size, and take nothing for it here: it gets memory
    // with the weights, when their names and shapes in the file have proved to be its own.
    const DefaultDevice nothing(Device::meta());
    t.recipe = find_recipe(t.name).make(Settings::parse(set));
  });
  t.recipe->take_kept(file.metadata(), t.path);
  t.device = device_for(device);
  t.step =
      from_file(t.path, [&] { return integer_of(number_in(file, "train.step"), "train.step"); });
  t.averaged = has_average(file);
  must_fit([&] { nn::load_model(t.recipe->model(), t.path, {.ema = t.averaged}); });
  t.recipe->model().to(t.device);
  t.recipe->model().eval();
  return t;
}

std::string load_initial_weights(Recipe& recipe, const std::string& path) {
  const std::string file = checkpoint_of(path);
  recipe.load_weights(file, has_average(SafetensorsFile::open(file)));
  return file;
}

}  // namespace wt::tools
