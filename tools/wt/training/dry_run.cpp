#include "warptape/tools/wt/training/dry_run.h"

#include <cstdio>

#include "warptape/core/mode.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/recipes/recipe_device.h"

namespace wt::tools {

void dry_run(const TrainOptions& o) {
  const MemoryJob job = memory_jobs(o, true).front();
  const MemoryUse use = predicted_steps(job);  // before anything is printed: it may fail
  {
    const DefaultDevice there(Device::meta(device_for(o.device).kind));
    const std::unique_ptr<Recipe> recipe = job.make();
    std::fputs(recipe->model().summary().c_str(), stderr);
  }
  std::printf("%s\n", memory_json(o, use, nullptr).c_str());
}

}  // namespace wt::tools
