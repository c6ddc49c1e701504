// Picture classifiers side by side: what a forward and a training step take, in time, memory, FLOPs
// and parameters. Behind `wt models race`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/model_cost.h"

namespace wt::tools {

struct ModelsRaceOptions {
  std::vector<std::string> models{"resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0"};
  i64 batch = 16, size = 224;  // pictures, and their side
  Device device = Device::cpu();
  std::string optimizer = "sgd";
  double seconds = 1;  // that a measurement takes about, after its warm-up; five runs at least
};

struct ModelsRaceRow {
  std::string model;
  ModelCost cost;          // of pictures of this size
  i64 measured_bytes = 0;  // what cost.step_bytes predicts
  double forward_ms = 0;   // of a batch, in evaluation: the median, between two events
  double forward_least_ms = 0, step_ms = 0, step_least_ms = 0;
  double forward_gflops_s(i64 batch) const {
    return cost.flops * double(batch) / forward_ms * 1e-6;
  }
};
struct ModelsRace {
  ModelsRaceOptions options;
  int threads = 0;
  std::vector<ModelsRaceRow> rows;
};

// One after another; `done` hears of each. Throws UsageError for a size that a model does not take,
// before anything is measured.
ModelsRace race_models(const ModelsRaceOptions& o,
                       const std::function<void(const ModelsRace&)>& done = {});

std::string models_race_table(const ModelsRace& race);
// {"model", "device", "batch", "size", "optimizer", "threads", "parameters", "flops", "forward_ms",
// "forward_least_ms", "step_ms", "step_least_ms", "predicted_bytes", "measured_bytes"}
std::string models_race_json(const ModelsRace& race, const ModelsRaceRow& row);
// A picture of its own: bars of each number.
std::string models_race_svg(const ModelsRace& race);
std::string models_race_page(const ModelsRace& race);
// models.jsonl, models.svg and report.html in `folder`. CheckpointError if one cannot be written.
void write_models_race(const std::string& folder, const ModelsRace& race);

}  // namespace wt::tools
