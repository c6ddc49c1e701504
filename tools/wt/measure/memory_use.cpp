#include "warptape/tools/wt/measure/memory_use.h"

#include <algorithm>
#include <optional>

#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/memory_fit.h"
#include "warptape/core/random.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"

namespace wt::tools {
namespace {

constexpr int kSteps = 3;  // the second has all of the optimizer's state, the third is like it

void add(memory::Level& l, Category c, i64 bytes) {
  l.bytes += bytes;
  l.by_category[size_t(c)] += bytes;
}

// The steps. `next` makes the batches; `built` hears that model and optimizer are there.
void train_steps(const MemoryJob& job, Recipe& recipe,
                 const std::function<data::Batch(i64 batch)>& next,
                 const std::function<void()>& built = {}) {
  const RecipeDefaults d = resolve(job.options, recipe);
  RecipeTraining training(job.options, d, recipe, 1);
  if (built) built();
  memory::reset_saved_by_rule();
  for (int i = 0; i < kSteps; ++i) {
    const CategoryScope scope(Category::dataset);
    const data::Batch b = next(d.batch);
    const CategoryScope steps(Category::activation);
    (void)training.step(b);
  }
  if (recipe.rounds().rounds > 0) training.rehearse_round(next(d.batch));
}

// `work` on `device`, traced; what lay there before does not count.
MemoryUse traced(Device device, const std::function<void()>& work) {
  memory::Trace trace(device);
  const memory::Level before = trace.now();
  work();
  MemoryUse use;
  use.spared = memory::saved_by_rule();
  for (memory::SavedBytes& rule : use.spared.rules) rule.bytes /= kSteps, rule.tensors /= kSteps;
  use.peak = trace.peak();
  use.holders = trace.at_peak();
  use.timeline = trace.timeline(kTimelineColumns);
  std::erase_if(use.holders, [](const memory::Holder& h) { return h.before; });
  const auto subtract = [&](memory::Level& l) {
    for (int c = 0; c < kNumCategories; ++c) add(l, Category(c), -before.by_category[size_t(c)]);
  };
  subtract(use.peak);
  std::for_each(use.timeline.begin(), use.timeline.end(), subtract);
  return use;
}

i64 dataset_bytes(const MemoryJob& job, const Recipe& recipe, Device device) {
  if (!job.with_data) return 0;
  if (device.kind == DeviceKind::cpu) return recipe.dataset_bytes(job.options.data);
  return keeps_data_on_device(job.options, recipe, device) ? recipe.resident_bytes(job.options.data)
                                                           : 0;
}

void count_dataset(MemoryUse& use, i64 bytes) {
  if (bytes == 0) return;
  add(use.peak, Category::dataset, bytes);
  for (memory::Level& l : use.timeline) add(l, Category::dataset, bytes);
  memory::Holder h{.category = Category::dataset};
  h.bytes = bytes, h.blocks = 1;
  use.holders.insert(std::find_if(use.holders.begin(), use.holders.end(),
                                  [&](const memory::Holder& o) { return o.bytes < bytes; }),
                     h);
}

}  // namespace

data::Batch made_up_batch(const Recipe& recipe, i64 batch) {
  const data::Batch shapes = recipe.shape_batch(batch);
  const auto zeros_of = [](const Tensor& t) {
    return zeros(t.shape(), {.dtype = t.dtype(), .device = Device::cpu()});
  };
  return {zeros_of(shapes.x), zeros_of(shapes.y)};
}

std::vector<MemoryJob> memory_jobs(const TrainOptions& o, bool with_data) {
  if (!is_race(o.recipe))
    return {{"", o, [o] { return make_recipe(o.recipe, o.set, o.data); }, with_data}};
  TrainOptions race = o;
  race.dry_run = false;  // of a race there is none, but of its memory
  const auto plan = std::make_shared<RacePlan>(race);
  std::vector<MemoryJob> jobs;
  for (const Racer& r : plan->start().racers) {
    MemoryJob job{r.name, o, [plan] { return plan->make_recipe(); }, with_data};
    job.options.optimizer = r.optimizer;
    job.options.momentum = r.momentum;
    job.options.precision = r.precision;
    if (job.options.clip < 0 && !plan->start().of_precisions())
      job.options.clip = 0;  // as the race has it
    jobs.push_back(std::move(job));
  }
  return jobs;
}

MemoryUse predicted_use(const MemoryJob& job) {
  const Device device = device_for(job.options.device), meta = Device::meta(device.kind);
  MemoryUse use;
  i64 data_bytes = 0, batch = 0;
  const auto work = [&] {
    manual_seed(job.options.seed);
    const std::unique_ptr<Recipe> recipe = job.make();
    data_bytes = dataset_bytes(job, *recipe, device);
    batch = resolve(job.options, *recipe).batch;
    train_steps(job, *recipe, [&](i64 n) { return recipe->shape_batch(n); });
  };
  (void)memory::predict(device, [&] { use = traced(meta, work); });
  count_dataset(use, data_bytes);
  use.batch = batch;
  return use;
}

// Levels alone. steps_only: from where model and optimizer are there.
static MemoryUse predicted_level(const MemoryJob& job, bool steps_only) {
  const Device device = device_for(job.options.device);
  i64 data_bytes = 0;
  MemoryUse use;
  const memory::Prediction p = memory::predict(device, [&] {
    manual_seed(job.options.seed);
    const std::unique_ptr<Recipe> recipe = job.make();
    data_bytes = dataset_bytes(job, *recipe, device);
    use.batch = resolve(job.options, *recipe).batch;
    train_steps(
        job, *recipe, [&](i64 n) { return recipe->shape_batch(n); },
        [&] {
          if (steps_only) memory::reset_peak(Device::meta(device.kind));
        });
  });
  for (int c = 0; c < kNumCategories; ++c) add(use.peak, Category(c), p.by_category[c]);
  add(use.peak, Category::dataset, data_bytes);
  return use;
}

i64 predicted_peak(const MemoryJob& job) { return predicted_level(job, false).peak.bytes; }
MemoryUse predicted_steps(const MemoryJob& job) { return predicted_level(job, true); }

MemoryUse measured_use(const MemoryJob& job) {
  const Device device = device_for(job.options.device);
  i64 batch = 0;
  MemoryUse use = traced(device, [&] {
    const DefaultDevice there(device);
    manual_seed(job.options.seed);
    const std::unique_ptr<Recipe> recipe = job.make();
    const RecipeDefaults d = resolve(job.options, *recipe);
    batch = d.batch;
    if (!job.with_data)
      return train_steps(job, *recipe, [&](i64 n) { return made_up_batch(*recipe, n); });
    const RecipeData data = [&] {
      const CategoryScope scope(Category::dataset);
      const DefaultDevice host(Device::cpu());
      RecipeData read = recipe->load(job.options.data);
      if (keeps_data_on_device(job.options, *recipe, device)) read.train = read.resident(device);
      read.resident = {};
      return read;
    }();
    TrainBatches loader(d, data, job.options.seed, job.options.workers);
    train_steps(job, *recipe, [&](i64) {
      data::Batch b;
      if (!loader.next(b) && !loader.next(b)) throw DataError("the data has no batch");
      return b;
    });
  });
  use.batch = batch;
  const memory::Stats s = memory::stats(device);
  use.pooled = std::max<i64>(0, s.reserved - s.live);
  return use;
}

std::string memory_json(const TrainOptions& o, const MemoryUse& predicted,
                        const MemoryUse* measured) {
  const memory::Level& shown = measured ? measured->peak : predicted.peak;
  JsonObject by;
  for (int c = 0; c < kNumCategories; ++c)
    if (const i64 bytes = shown.by_category[size_t(c)]) by.add(category_name(Category(c)), bytes);
  JsonObject j;
  j.add("recipe", o.recipe);
  j.add("device", to_string(device_for(o.device)));
  j.add("precision", o.precision);
  j.add("batch", predicted.batch);
  j.add("predicted_bytes", predicted.peak.bytes);
  if (measured)
    j.add("measured_bytes", measured->peak.bytes);
  else
    j.add_null("measured_bytes");
  JsonObject spared;
  const memory::SavedByRule& rules = measured ? measured->spared : predicted.spared;
  for (int r = 0; r < memory::kNumSavingRules; ++r)
    spared.add(memory::saving_rule_name(memory::SavingRule(r)), rules.rules[r].bytes);
  j.add_raw("spared", spared.str());
  j.add_raw("categories", by.str());
  return j.str();
}

}  // namespace wt::tools
