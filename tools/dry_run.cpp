#include "warptape/tools/dry_run.h"

#include <cstdio>

#include "warptape/core/factories.h"
#include "warptape/core/json.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tools/recipe_device.h"
#include "warptape/tools/recipe_training.h"

namespace wt::tools {

void dry_run(const TrainOptions& o) {
  const auto make_on = [&](Device d) {
    const DefaultDevice there(d);
    return find_recipe(o.recipe).make(Settings(o.set));
  };
  const Device device = device_for(o.device);
  const Device meta = Device::meta(device.kind);
  manual_seed(o.seed);
  const std::unique_ptr<Recipe> recipe = make_on(meta);
  const RecipeDefaults d = resolve(o, *recipe);
  const i64 data_bytes = recipe->dataset_bytes(o.data);
  RecipeTraining training(o, d, *recipe, 1);
  memory::reset_peak(meta);
  const data::Batch b = recipe->shape_batch(d.batch);
  for (int i = 0; i < 3; ++i) training.step(b);
  const memory::Stats s = memory::stats(meta);
  const i64 peak = s.peak + (device.kind == DeviceKind::cpu ? data_bytes : 0);
  std::fputs(recipe->model().summary().c_str(), stderr);
  JsonObject by;
  for (int c = 0; c < kNumCategories; ++c)
    if (s.peak_by_category[c]) by.add(category_name(Category(c)), s.peak_by_category[c]);
  JsonObject j;
  j.add("recipe", o.recipe);
  j.add("device", to_string(device));
  j.add("precision", o.precision);
  j.add("batch", d.batch);
  j.add("predicted_bytes", peak);
  j.add_null("measured_bytes");
  j.add_raw("categories", by.str());
  std::printf("%s\n", j.str().c_str());
}

}  // namespace wt::tools
