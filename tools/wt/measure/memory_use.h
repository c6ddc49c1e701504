// What training a recipe takes: predicted on the meta device, or measured. Behind `wt memory`,
// `--dry-run` and the advice when there is no memory.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/memory_trace.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

struct MemoryUse {
  i64 batch = 0;
  memory::Level peak{};                   // of the device the model is on; the categories add up
  std::vector<memory::Holder> holders{};  // at the peak, the largest first; they add up to it
  std::vector<memory::Level> timeline{};  // at most kTimelineColumns levels over all steps
  i64 pooled = 0;                // measured: kept by the pools and in no tensor, afterwards
  memory::SavedByRule spared{};  // by the rules about saved tensors, in a step
};
inline constexpr i64 kTimelineColumns = 240;

// One training that a recipe stands for: a race has one for each racer.
struct MemoryJob {
  std::string label;  // the optimizer; empty where there is one job
  TrainOptions options;
  std::function<std::unique_ptr<Recipe>()> make;
  bool with_data = false;  // the dataset counts, and a measurement reads it
};
std::vector<MemoryJob> memory_jobs(const TrainOptions& o, bool with_data);
// A batch on the cpu that needs no data: class 0, byte 0, pixels of 0.
data::Batch made_up_batch(const Recipe& recipe, i64 batch);

// Three steps on the meta device that stands for the one of the options: no tensor gets bytes. A
// dataset counts where it lies on that device; only headers are read.
MemoryUse predicted_use(const MemoryJob& job);
// Bytes of predicted_use() alone, at less cost.
i64 predicted_peak(const MemoryJob& job);
// The level of the steps alone, which is what `wt train` reports as peak_bytes: while an optimizer
// is made, the parameters lie there twice, which can be more.
MemoryUse predicted_steps(const MemoryJob& job);
// Three steps on the device itself, on the first batches of the data or on made-up ones.
MemoryUse measured_use(const MemoryJob& job);

// {"recipe", "device", "precision", "batch", "predicted_bytes", "measured_bytes", "spared",
// "categories"}; the categories add up to the measured bytes, or to the predicted ones where
// `measured` is null. spared: bytes a step by the name of the rule.
std::string memory_json(const TrainOptions& o, const MemoryUse& predicted,
                        const MemoryUse* measured);

}  // namespace wt::tools
